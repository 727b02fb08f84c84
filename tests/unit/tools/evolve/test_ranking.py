"""Ideas are ranked by what they promise and by what they brought; nothing known to fail is paid for again."""

from typing import Any

import pytest

from cuda_harness.state.attempt import Attempt
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import Failure, Verdict
from cuda_harness.state.rounds import BranchEnd, BranchPlan, Contest, Round
from cuda_harness.tools.evolve.ranking import Trial, expected_gain, failures, ranked, trials
from cuda_harness.tools.evolve.traits import Evidence, ir_traits

IR = KernelIR.model_validate({
    "name": "f", "dims": [{"name": "n", "value": 4096}],
    "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
                {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
    "steps": [{"id": "s", "op": "relu", "reads": ["x"], "writes": ["y"]}],
})  # fmt: skip
EVIDENCE = Evidence(IR, ir_traits(IR))
GOOD = Verdict(outcome="accepted", executor="cuda:0")


def names(*tried: Trial, base: int = 1) -> list[str]:
    return [i.strategy.name for i in ranked(EVIDENCE, tried, base=base)]


def trial(strategy: str = "vector_loads", base: int = 1, **fields: Any) -> Trial:
    defaults = {"verified": True, "ratio": 1.0, "kept": False, "hopeless": True, "gained": False}
    return Trial(strategy, base, **{**defaults, **fields})


def test_the_most_promising_idea_comes_first() -> None:
    assert names() == ["vector_loads", "instruction_parallelism", "persistent_grid"]


def test_an_idea_is_not_judged_twice_on_one_base_but_may_be_on_another() -> None:
    assert "vector_loads" not in names(trial())
    assert "vector_loads" in names(trial(), base=2)


def test_an_idea_that_is_in_the_base_is_not_proposed() -> None:
    assert "vector_loads" not in names(trial(kept=True, gained=True), base=2)


def test_a_gain_that_lost_to_a_better_one_is_first_on_the_new_base() -> None:
    gained = trial("persistent_grid", ratio=1.4, gained=True)
    assert names(gained, base=2)[0] == "persistent_grid"


def test_a_wrong_kernel_gets_one_more_try_behind_what_is_new() -> None:
    once = trial(verified=False, hopeless=False, ratio=None)
    assert names(once)[-1] == "vector_loads" or names(once).index("vector_loads") > 0
    assert "vector_loads" not in names(once, once)
    assert "vector_loads" not in names(trial(verified=False, hopeless=True, ratio=None))


def test_failures_count_in_a_row() -> None:
    lost, won = trial(), trial(gained=True)
    assert failures([lost, won, lost]) == 1
    assert failures([won, lost, lost]) == 2


@pytest.mark.parametrize(
    ("ratio", "verified", "expected"), [(1.21, True, 1.1), (None, True, 1.0), (None, False, 1.0)]
)
def test_the_expectation_moves_towards_what_was_seen(
    ratio: float | None, verified: bool, expected: float
) -> None:
    assert expected_gain(1.0, [trial(ratio=ratio, verified=verified)]) == pytest.approx(expected)
    assert 1.0 < expected_gain(2.0, [trial(ratio=None, verified=False)]) < 2.0


def test_trials_are_read_from_rounds_and_a_twin_of_the_winner_is_in_the_base() -> None:
    def attempt(number: int, design: str, **fields: Any) -> Attempt:
        return Attempt(id=number, sha256=design, design=design, **{"verdict": GOOD, **fields})

    def contest(challenger: int, **fields: Any) -> Contest:
        return Contest(base=1, challenger=challenger, basis="time", reason="r", **fields)

    failure = Failure.model_validate({"stage": "tiny", "class": "unsupported", "message": "asm"})
    undecided = Verdict(outcome="undecided", executor="cpu", failure=failure)
    plans = tuple(
        BranchPlan(name=f"r1b{k}", parent=1, strategy=s, first=2 * k, last=2 * k + 1)
        for k, s in enumerate(("a", "b", "c", "d"), start=1)
    )
    settled = Round(
        number=1, base=1, branches=plans, winner=2, reason="won",
        contests=(contest(2, ratio=1.5, better=True), contest(4, better=False)),
    )  # fmt: skip
    attempts = {
        1: attempt(1, "o"),
        2: attempt(2, "x"),
        4: attempt(4, "x"),
        6: attempt(6, "z", verdict=undecided),
    }
    found = {t.strategy: t for t in trials({1: settled}, attempts)}
    assert found["a"].kept
    assert found["a"].gained
    assert found["b"].kept
    assert not found["b"].gained
    assert found["c"].hopeless
    assert not found["c"].verified
    assert found["d"].hopeless, "a branch that wrote nothing was refused"
    ended = {"r1b4": BranchEnd(reason="not_applicable"), "r1b3": BranchEnd(reason="refused")}
    assert [t.applies for t in trials({1: settled}, attempts, ended)] == [True, True, True, False]
