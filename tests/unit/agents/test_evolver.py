"""The Evolver's rules, and the Profiler's honest unknowns."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.judge import FakeJudge, Ratio
from tests.fakes.services import FakeRuntime, FakeServices

from cuda_harness.agents.evolver import choose_next, decide
from cuda_harness.agents.ideas import Proposal
from cuda_harness.agents.profiler import profile_kernel
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.budget import Budget, Stop
from cuda_harness.state.harness import EvolverView, ProfilerView
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.lineage import base_of
from cuda_harness.state.results import Failure, KernelFacts, Timing, TimingNotMeasured, Verdict
from cuda_harness.state.rounds import BranchEnd, Round
from cuda_harness.state.settings import Settings

IR = KernelIR.model_validate(
    {
        "name": "f",
        "dims": [{"name": "n", "value": 1000}],
        "tensors": [{"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
        "cost": {"flops": "6*n", "bytes": "4*n"},
    }
)
FACTS = KernelFacts(name="k", registers=40, shared_bytes=None, spill_store_bytes=8)
ACCEPTED = Verdict(outcome="accepted", executor="cpu", kernels=(FACTS,))


def rejected(fault: str, message: str = "m") -> Verdict:
    failure = Failure.model_validate({"stage": "shapes", "class": fault, "message": message})
    return Verdict(outcome="rejected", executor="cpu", failure=failure)


def test_a_verified_kernel_ends_the_search_and_says_why_no_round_follows(tmp_path: Path) -> None:
    best = Attempt(id=2, sha256="a", verdict=ACCEPTED, timing=TimingNotMeasured(reason="no GPU"))
    state = EvolverView(
        run_dir="r", ir=IR, attempts={1: Attempt(id=1, sha256="b", verdict=rejected("mismatch")), 2: best}
    )
    services = FakeServices(tmp_path)
    update = choose_next(state, FakeRuntime(services))  # type: ignore[arg-type]
    assert update["decision"].action == "stop"  # type: ignore[union-attr]
    assert update["stop"].reason == "verified"  # type: ignore[union-attr]
    assert "no GPU" in update["stop"].detail  # type: ignore[union-attr]
    assert services.names() == ["next_chosen"]


@pytest.mark.parametrize(
    ("attempts", "budget", "action"),
    [
        ({}, {}, "write"),
        ({1: ("mismatch", "first")}, {}, "repair"),
        ({1: ("mismatch", "first")}, {"repairs": 0}, "redesign"),
        ({1: ("mismatch", "first")}, {"repairs": 0, "redesigns": 0}, "stop"),
        ({1: ("environment", "first")}, {}, "stop"),
        ({1: ("oracle", "first")}, {}, "stop"),
        ({1: ("unsupported", "first")}, {}, "redesign"),
    ],
)
def test_a_failed_kernel_is_decided_by_the_correctness_budget(
    attempts: dict[int, tuple[str, str]], budget: dict[str, Any], action: str
) -> None:
    held = {i: Attempt(id=i, sha256="a", strategy=s, verdict=rejected(f)) for i, (f, s) in attempts.items()}
    update = decide(EvolverView(attempts=held, budget=Budget(**budget)), FakeJudge(IR))
    decision = update["decision"]
    assert decision is not None
    assert decision.action == action


def timed(number: int, microseconds: float, **fields: Any) -> Attempt:
    timing = Timing(
        median_us=microseconds, ci95_us=(microseconds * 0.99, microseconds * 1.01), samples=50, device="test"
    )
    return Attempt(
        id=number, sha256=str(number), design=str(number), verdict=ACCEPTED, timing=timing, **fields
    )


def started(budget: Budget | None = None, **judge: Any) -> tuple[EvolverView, FakeJudge]:
    """A run at its first verified kernel, its first round decided."""
    fake = FakeJudge(IR, **judge)
    state = EvolverView(run_dir="r", ir=IR, budget=budget or Budget(), attempts={1: timed(1, 100.0)})
    return after(state, decide(state, fake)), fake


def after(state: EvolverView, update: Any) -> EvolverView:
    changes: dict[str, Any] = {k: update[k] for k in ("decision", "stop") if k in update}
    changes["rounds"] = {**state.rounds, **update.get("rounds", {})}
    return state.model_copy(update=changes)


def joined(state: EvolverView, *attempts: Attempt, **ended: BranchEnd) -> EvolverView:
    return state.model_copy(
        update={
            "attempts": {**state.attempts, **{a.id: a for a in attempts}},
            "ended": {**state.ended, **ended},
        }
    )


def test_each_branch_gets_one_idea_and_attempt_ids_of_its_own() -> None:
    state, _ = started()
    assert state.decision is not None
    first, second = state.decision.branches
    assert (first.name, second.name) == ("r1b1", "r1b2")
    assert first.strategy != second.strategy
    assert first.parent == second.parent == 1
    assert first.first == 2
    assert second.first == first.last + 1
    assert state.rounds[1].reason == ""


def test_a_branch_whose_interval_clears_the_base_becomes_base() -> None:
    state, fake = started(times_us={1: 100.0, 2: 80.0, 6: 99.5})
    state = joined(state, timed(2, 80.0, branch="r1b1"), timed(6, 99.5, branch="r1b2"))
    state = after(state, decide(state, fake))
    settled = state.rounds[1]
    assert settled.winner == 2
    assert [c.better for c in settled.contests] == [True, False]
    assert "not told apart" in settled.contests[1].reason
    assert state.decision is not None
    assert state.decision.parent == state.rounds[2].base == 2
    assert state.rounds[2].branches[0].first == 10
    assert settled.branches[0].strategy not in {b.strategy for b in state.rounds[2].branches}


@pytest.mark.parametrize(("again", "delivered"), [(1.2, 2), (1.0, 1)])
def test_the_last_winner_must_clear_the_base_once_more_on_a_fresh_seed(again: float, delivered: int) -> None:
    numbers: list[int] = []

    def measure(_base: int, _challenger: int, number: int) -> Ratio:
        numbers.append(number)
        ratio = 1.2 if len(numbers) == 1 else again
        return Ratio(ratio, (ratio - 0.02, ratio + 0.02))

    state, fake = started(Budget(rounds=1), measure=measure)
    state = joined(state, timed(2, 80.0, branch="r1b1"))
    update = decide(state, fake)
    assert update["stop"] is not None
    assert update["stop"].reason == "budget"
    settled = update["rounds"][1]
    assert settled.final is not None
    assert (settled.winner, settled.base_after) == (2, delivered)
    assert numbers[0] != numbers[1]
    best = base_of(state.attempts, update["rounds"])
    assert best is not None
    assert best.id == delivered
    again_stopped = decide(after(state, update), fake)
    assert again_stopped["rounds"] == {}
    assert len(numbers) == 2


def test_two_rounds_without_a_gain_end_the_search() -> None:
    state, fake = started(Budget(rounds=9, patience=1), times_us={})
    state = joined(state, timed(2, 100.0, branch="r1b1"))
    update = decide(state, fake)
    assert update["stop"] is not None
    assert update["stop"].reason == "no_gain"
    assert update["rounds"][1].winner is None


def test_patience_and_rounds_count_anew_where_a_finished_search_is_taken_up() -> None:
    state, fake = started(Budget(rounds=9, patience=1))
    state = joined(state, timed(2, 100.0, branch="r1b1"))
    state = after(state, decide(state, fake))
    assert state.stop is not None
    mark = Round(number=2, base=1, reason="went on in a later session")
    state = state.model_copy(update={"stop": None, "rounds": {**state.rounds, 2: mark}})
    update = decide(state, fake)
    assert update.get("stop") is None
    assert update["decision"] is not None
    assert update["decision"].round == 3
    full = state.model_copy(update={"budget": Budget(rounds=1, patience=1)})
    assert decide(full, fake)["stop"] == Stop(reason="budget", detail="1 of 1 rounds are done")


def test_an_idea_that_does_not_apply_is_out_and_a_round_of_such_ideas_counts_for_nothing() -> None:
    state, fake = started(Budget(rounds=1, patience=1))
    does_not = BranchEnd(reason="not_applicable", detail="the kernel has it already")
    first = state.rounds[1].branches
    state = joined(state, **{plan.name: does_not for plan in first})
    state = after(state, decide(state, fake))
    assert state.stop is None
    assert state.rounds[1].winner is None
    second = state.rounds[2].branches
    assert not {p.strategy for p in first} & {p.strategy for p in second}
    state = joined(state, timed(second[0].first, 100.0, branch=second[0].name))
    assert decide(state, fake)["stop"] == Stop(reason="budget", detail="1 of 1 rounds are done")


def test_a_winner_that_was_confirmed_is_not_measured_again_in_a_later_session() -> None:
    state, fake = started(Budget(rounds=1), measure=lambda *_: Ratio(1.2, (1.1, 1.3)))
    state = joined(state, timed(2, 80.0, branch="r1b1"))
    state = after(state, decide(state, fake))
    assert state.rounds[1].final is not None
    mark = Round(number=2, base=2, reason="went on in a later session")
    state = state.model_copy(update={"rounds": {**state.rounds, 2: mark}})
    assert decide(state, fake)["rounds"] == {}


def test_the_speed_of_light_ends_the_search() -> None:
    bright = timed(1, 10.0).timing.model_copy(update={"floor_us": 9.7, "sol_fraction": 0.97})  # type: ignore[union-attr]
    state = EvolverView(ir=IR, attempts={1: timed(1, 10.0).model_copy(update={"timing": bright})})
    update = decide(state, FakeJudge(IR))
    assert update["stop"] is not None
    assert update["stop"].reason == "target_reached"


def test_a_stop_of_a_branch_stops_the_run_after_its_siblings_are_settled() -> None:
    state, fake = started(times_us={1: 100.0, 6: 50.0})
    spent = BranchEnd(reason="stopped", stop=Stop(reason="budget", detail="60 of 60 calls are made"))
    state = joined(state, timed(6, 50.0, branch="r1b2"), r1b1=spent)
    update = decide(state, fake)
    assert update["stop"] == spent.stop
    assert update["rounds"][1].winner == 6
    assert update["decision"] is not None
    assert update["decision"].parent == 6


def test_identical_kernels_of_two_branches_are_compared_once() -> None:
    state, fake = started(times_us={1: 100.0, 2: 50.0, 6: 50.0})
    twin = timed(6, 50.0, branch="r1b2").model_copy(update={"design": "2"})
    state = joined(state, timed(2, 50.0, branch="r1b1"), twin)
    contests = decide(state, fake)["rounds"][1].contests
    assert [c.better for c in contests] == [True, False]
    assert "token for token" in contests[1].reason


def test_the_model_is_asked_only_when_the_rules_have_too_few_ideas() -> None:
    few, fake = started(Budget(branches=1))
    assert few.decision is not None
    assert fake.asked == []
    many, fake = started(Budget(branches=16), proposals=(Proposal(name="mine", idea="do it otherwise"),))
    assert fake.asked == [1]
    assert many.decision is not None
    assert (many.decision.branches[-1].strategy, many.decision.branches[-1].by) == ("mine", "model")
    assert fake.taken == tuple(b.strategy for b in many.decision.branches[:-1])


def test_no_call_left_means_no_round_and_few_mean_few_branches() -> None:
    state, _ = started(left=0)
    assert state.stop is not None
    assert state.stop.reason == "budget"
    state, _ = started(left=1)
    assert state.decision is not None
    assert len(state.decision.branches) == 1


def test_the_last_call_is_no_reason_to_say_that_ideas_are_at_an_end() -> None:
    few, fake = started(Budget(branches=16, rounds=9, patience=9), left=40)
    ended = {b.name: BranchEnd(reason="not_applicable", detail="no") for b in few.rounds[1].branches}
    fake.left = 1
    stop = decide(joined(few, **ended), fake)["stop"]
    assert stop is not None
    assert stop.reason == "budget"
    assert "1 model call is left" in stop.detail


def test_without_a_time_no_round_follows_unless_it_is_asked_for() -> None:
    held = {1: Attempt(id=1, sha256="a", verdict=ACCEPTED, timing=TimingNotMeasured(reason="no GPU"))}
    update = decide(EvolverView(ir=IR, attempts=held), FakeJudge(IR))
    assert update["stop"] is not None
    assert update["stop"].reason == "verified"
    update = decide(EvolverView(ir=IR, attempts=held, budget=Budget(rounds=1)), FakeJudge(IR))
    assert update["decision"] is not None
    assert update["decision"].action == "branch"


def test_the_order_in_which_branches_come_back_changes_nothing() -> None:
    state, fake = started(Budget(branches=3), times_us={2: 90.0, 6: 80.0, 10: 80.0})
    came = [timed(2, 90.0), timed(6, 80.0), timed(10, 80.0)]
    decisions = [decide(joined(state, *order), fake) for order in itertools.permutations(came)]
    assert all(d == decisions[0] for d in decisions)
    assert decisions[0]["rounds"][1].winner == 6


def test_a_verified_kernel_gets_a_reason_for_no_time_and_what_the_compiler_said(tmp_path: Path) -> None:
    held = {
        1: Attempt(id=1, sha256="a", verdict=rejected("mismatch")),
        2: Attempt(id=2, sha256="b", verdict=ACCEPTED),
    }
    services = FakeServices(tmp_path)
    update = profile_kernel(ProfilerView(run_dir="r", ir=IR, attempts=held), FakeRuntime(services))  # type: ignore[arg-type]
    assert list(update["attempts"]) == [2]
    attempt = update["attempts"][2]
    assert isinstance(attempt.timing, TimingNotMeasured)
    assert "CPU executor" in attempt.timing.reason
    assert attempt.median_us is None
    assert attempt.profile is not None
    assert (attempt.profile.rung, attempt.profile.bound) == ("cubin", "unknown")
    assert attempt.profile.metrics == {
        "k.registers": 40.0, "k.spill_store_bytes": 8.0, "flops": 6000.0, "bytes": 4000.0, "flops_per_byte": 1.5,
    }  # fmt: skip
    assert "registers spill to memory in k" in attempt.profile.sentence
    assert (tmp_path / "attempts/002/timing.json").is_file()


def test_a_profile_without_any_fact_claims_none(tmp_path: Path) -> None:
    bare = Attempt(id=1, sha256="b", verdict=Verdict(outcome="accepted", executor="mine"))
    update = profile_kernel(
        ProfilerView(run_dir="r", attempts={1: bare}), FakeRuntime(FakeServices(tmp_path))
    )  # type: ignore[arg-type]
    profile = update["attempts"][1].profile
    assert profile is not None
    assert (profile.rung, profile.metrics) == ("static", {})
    assert profile.sentence == "what bounds it was not measured"


def test_a_profiled_kernel_is_left_alone(tmp_path: Path) -> None:
    done = Attempt(id=1, sha256="b", verdict=ACCEPTED, timing=TimingNotMeasured(reason="r"))
    update = profile_kernel(
        ProfilerView(run_dir="r", attempts={1: done}), FakeRuntime(FakeServices(tmp_path))
    )  # type: ignore[arg-type]
    assert update["attempts"] == {}


def test_a_resumed_run_decides_by_the_budget_that_it_is_given_now(tmp_path: Path) -> None:
    services = FakeServices(tmp_path, settings=Settings(budget=Budget(rounds=0)))
    state = EvolverView(run_dir="r", ir=IR, budget=Budget(rounds=3), attempts={1: timed(1, 100.0)})
    update = choose_next(state, FakeRuntime(services))  # type: ignore[arg-type]
    assert update["stop"] == Stop(reason="verified", detail="attempt 1 passed the whole ladder")
    assert update["budget"] == Budget(rounds=0)
