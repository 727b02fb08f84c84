from typing import Any

import pytest

from cuda_harness.state.attempt import Attempt, merge_attempts
from cuda_harness.state.budget import Budget
from cuda_harness.state.lineage import (
    best_unverified,
    best_verified,
    correctness_step,
    design_of,
    failure_pattern,
    latest,
)
from cuda_harness.state.results import Failure, StageResult, Timing, Verdict


def verdict(outcome: str, fault: str | None = None, message: str = "m", passed: int = 3) -> Verdict:
    stages = tuple(
        StageResult(name=n, status="passed") for n in ("parse", "policy", "compile", "tiny")[:passed]
    )  # type: ignore[arg-type]
    failure = Failure(stage="tiny", class_=fault, message=message) if fault else None  # type: ignore[arg-type]
    return Verdict(outcome=outcome, executor="cpu", stages=stages, failure=failure)  # type: ignore[arg-type]


def attempt(id_: int, **fields: Any) -> Attempt:
    return Attempt(id=id_, sha256=fields.pop("sha256", f"h{id_}"), **fields)


def rejected(id_: int, message: str = "m", fault: str = "mismatch", **fields: Any) -> Attempt:
    return attempt(id_, verdict=verdict("rejected", fault, message), **fields)


def chain(*attempts: Attempt) -> dict[int, Attempt]:
    return {a.id: a for a in attempts}


def test_status_follows_from_what_is_known() -> None:
    assert Attempt(id=0, unusable="no kernel").status == "unusable"
    assert attempt(0).status == "written"
    assert attempt(0, verdict=verdict("accepted")).status == "verified"
    assert attempt(0, verdict=verdict("undecided", "resources")).status == "undecided"
    assert rejected(0).status == "rejected"


def test_repairs_end_with_the_budget_and_a_new_design_starts_over() -> None:
    budget = Budget(repairs=1, redesigns=1)
    first = rejected(0, "row 1 is wrong")
    second = rejected(1, "column 2 is wrong", parent=0, strategy="repair")
    third = rejected(2, "all is wrong", parent=1, strategy="redesign")
    fourth = rejected(3, "still wrong", parent=2, strategy="repair")
    assert correctness_step(chain(first), budget) == "repair"
    assert correctness_step(chain(first, second), budget) == "redesign"
    assert correctness_step(chain(first, second, third), budget) == "repair"
    assert correctness_step(chain(first, second, third, fourth), budget) == "give_up"
    assert [a.id for a in design_of(chain(first, second, third, fourth), fourth)] == [2, 3]


def test_the_same_fault_three_times_changes_the_design() -> None:
    attempts = chain(
        rejected(0, "y[3] is 1.5, expected 2"),
        rejected(1, "y[9] is 1.25, expected 7", parent=0, strategy="repair"),
        rejected(2, "y[0] is -4e-3, expected 1", parent=1, strategy="repair"),
    )
    assert len({failure_pattern(a) for a in attempts.values()}) == 1
    assert correctness_step(attempts, Budget(repairs=9, redesigns=1)) == "redesign"


@pytest.mark.parametrize("fault", ["environment", "oracle", "weak_suite", "resources"])
def test_failures_that_no_kernel_can_mend_cost_nothing(fault: str) -> None:
    last = attempt(0, verdict=verdict("undecided", fault))
    assert correctness_step(chain(last), Budget()) == "give_up"


def test_an_author_that_only_repeats_itself_gets_a_new_design() -> None:
    def at(number: int, *, again: bool) -> Attempt:
        judged = (
            {"duplicate_of": 1, "unusable": f"attempt {number}"}
            if again
            else {"verdict": verdict("rejected", "mismatch"), "sha256": "a"}
        )
        return Attempt.model_validate(
            {
                "id": number,
                "parent": number - 1 or None,
                "strategy": "repair" if number > 1 else "first",
                **judged,
            }
        )

    chain = {n: at(n, again=n in {2, 4}) for n in range(1, 5)}
    assert correctness_step({n: chain[n] for n in (1, 2, 3)}, Budget()) == "repair"
    assert correctness_step(chain, Budget()) == "redesign"


def test_a_missing_feature_changes_the_design_at_once() -> None:
    last = attempt(0, verdict=verdict("undecided", "unsupported"))
    assert correctness_step(chain(last), Budget(repairs=5, redesigns=1)) == "redesign"
    assert correctness_step(chain(last), Budget(repairs=5, redesigns=0)) == "give_up"


def test_best_prefers_time_then_age() -> None:
    timed = Timing(median_us=5.0, ci95_us=(4.0, 6.0), samples=9, device="d")
    attempts = chain(
        attempt(0, verdict=verdict("accepted")),
        attempt(1, verdict=verdict("accepted"), timing=timed),
        rejected(2),
    )
    assert best_verified(attempts) == attempts[1]
    assert best_verified(chain(attempts[2])) is None
    assert best_verified(chain(attempts[0], attempt(3, verdict=verdict("accepted")))) == attempts[0]
    undecided = chain(
        attempt(4, verdict=verdict("undecided", "resources", passed=4)),
        attempt(5, verdict=verdict("undecided", "resources", passed=2)),
    )
    assert best_unverified(undecided) == undecided[4]
    assert latest({}) is None


def test_merging_is_order_free_for_different_attempts() -> None:
    a, b = chain(rejected(0)), chain(rejected(1))
    assert merge_attempts(a, b) == merge_attempts(b, a)
    assert list(merge_attempts(b, a)) == [0, 1]


def test_recursion_limit_follows_from_the_budget() -> None:
    small, large = (
        Budget(repairs=0, redesigns=0, rounds=0),
        Budget(repairs=5, redesigns=2, rounds=3, branches=2),
    )
    assert small.max_attempts == 1
    assert large.max_attempts == 3 * 6 + 3 * 2 * large.attempts_per_branch
    assert small.recursion_limit < large.recursion_limit
