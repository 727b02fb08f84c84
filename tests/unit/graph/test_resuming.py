"""A stopped run goes on where it stood; a round that was cut off sends out only the branches without an end."""

from typing import Any

from cuda_harness.graph.nodes import Node
from cuda_harness.graph.resuming import LATER, cut_off, go_on_from, goes_on, stood_at, to_judge_again
from cuda_harness.graph.routers import after_evolver, branch_start, branches_of
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.budget import Budget, Stop
from cuda_harness.state.harness import BranchState, Decision, HarnessState
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import Failure, TimingNotMeasured, Verdict
from cuda_harness.state.rounds import BranchEnd, BranchPlan, Contest, Round
from cuda_harness.state.suite import SuiteSummary

IR = KernelIR.model_validate({"name": "k", "tensors": [{"name": "y", "role": "out", "dtype": "float32"}]})
GOOD = Attempt(id=1, sha256="a", verdict=Verdict(outcome="accepted", executor="cpu"))
SPENT = Stop(reason="budget", detail="5 of 5 calls are made")
PLANS = (
    BranchPlan(name="r1b1", parent=1, strategy="vector_loads", first=2, last=5),
    BranchPlan(name="r1b2", parent=1, strategy="persistent_grid", first=6, last=9),
)


def cut() -> HarnessState:
    settled = Round(number=1, base=1, branches=PLANS, reason="attempt 1 stays")
    return HarnessState(
        ir=IR, attempts={1: GOOD}, rounds={1: settled}, stop=SPENT,
        ended={"r1b2": BranchEnd(reason="stopped", stop=SPENT)},
    )  # fmt: skip


def test_only_the_branch_that_was_cut_off_is_sent_out_again() -> None:
    state = cut()
    assert cut_off(state) == (PLANS[1],)
    change, node = go_on_from(state)
    assert node == Node.EVOLVER
    resumed = state.model_copy(update=change)
    assert resumed.rounds[1].reason == ""
    sent = after_evolver(resumed)
    assert not isinstance(sent, str)
    states = [s.arg for s in sent]
    assert [s.plan.name for s in states if isinstance(s, BranchState)] == ["r1b2"]
    assert cut_off(resumed) == ()


def test_a_run_without_a_cut_round_stands_where_its_state_says() -> None:
    suite = SuiteSummary.model_construct()
    rejected = Attempt(id=1, sha256="a", verdict=Verdict(outcome="rejected", executor="cpu"))
    states = {
        Node.INTAKE: HarnessState(),
        Node.PLANNER: HarnessState(ir=IR),
        Node.SYNTHESIZER: HarnessState.model_construct(ir=IR, suite=suite, attempts={}, rounds={}),
        Node.CODER: HarnessState.model_construct(
            ir=IR, suite=suite, attempts={1: Attempt(id=1, sha256="a")}, rounds={}
        ),
        Node.VERIFIER: HarnessState.model_construct(ir=IR, suite=suite, attempts={1: rejected}, rounds={}),
        Node.PROFILER: HarnessState.model_construct(ir=IR, suite=suite, attempts={1: GOOD}, rounds={}),
    }
    assert {node: stood_at(state) for node, state in states.items()} == {node: node for node in states}


def ended(attempt: Attempt, reason: str = "verified", **more: object) -> HarnessState:
    stop = None if reason == "open" else Stop(reason=reason)  # type: ignore[arg-type] - the tests' own words
    return HarnessState.model_construct(
        ir=IR, suite=SuiteSummary.model_construct(), attempts={1: attempt}, stop=stop, **{"rounds": {}, **more}
    )  # fmt: skip


def test_a_finished_run_goes_on_only_when_it_is_given_more() -> None:
    for reason in ("verified", "no_gain", "strategies_exhausted", "target_reached"):
        assert goes_on(ended(GOOD, reason), given=True, executor="cpu")
        assert not goes_on(ended(GOOD, reason), given=False, executor="cpu")
    assert not goes_on(ended(GOOD, "refused"), given=True, executor="cpu")
    assert goes_on(ended(GOOD, "budget"), given=False, executor="cpu")


def test_a_finished_search_is_taken_up_behind_a_round_without_branches() -> None:
    settled = Round(number=1, base=1, branches=PLANS, reason="attempt 1 stays")
    change, node = go_on_from(ended(GOOD, "no_gain", rounds={1: settled}, ended={}), executor="cpu")
    assert node == Node.PROFILER
    assert change["rounds"] == {2: Round(number=2, base=1, reason=LATER)}
    change, _ = go_on_from(ended(GOOD, "budget", rounds={1: settled}, ended={}), executor="cpu")
    assert "rounds" not in change


def test_an_open_verdict_is_dropped_and_the_kernel_judged_again() -> None:
    missing = Failure.model_validate({"stage": "tiny", "class": "environment", "message": "no compiler"})
    for failure in (missing, None):
        verdict = Verdict(outcome="undecided", executor="cpu", failure=failure)
        state = ended(Attempt(id=1, sha256="a", verdict=verdict), "open")
        assert goes_on(state, given=False, executor="cpu")
        change, node = go_on_from(state, executor="cpu")
        assert node == Node.CODER
        assert change["attempts"][1].status == "written"
        assert to_judge_again(state, None) is None, "there is still nothing to judge with"


def test_another_executor_judges_a_verified_kernel_itself_unless_it_was_compared_already() -> None:
    state = ended(GOOD)
    assert to_judge_again(state, "cpu") is None
    assert to_judge_again(state, "cuda:0") == GOOD
    settled = Round(number=1, base=1, branches=PLANS, reason="attempt 1 stays")
    assert to_judge_again(ended(GOOD, rounds={1: settled}), "cuda:0") is None


def test_a_branch_begins_where_it_was_cut_off() -> None:
    def at(*own: Attempt) -> BranchState:
        held = {a.id: a for a in (GOOD, *own)}
        return BranchState(plan=PLANS[0], attempts=held, budget=Budget(branch_repairs=1))

    def tried(number: int, outcome: str | None, strategy: str = "vector_loads", **more: Any) -> Attempt:
        verdict = Verdict.model_validate({"outcome": outcome, "executor": "cpu"}) if outcome else None
        return Attempt(id=number, parent=1, sha256="b", strategy=strategy, verdict=verdict, **more)

    bad = {
        "outcome": "rejected",
        "executor": "cpu",
        "failure": {"stage": "tiny", "class": "mismatch", "message": "m"},
    }
    wrong = tried(2, None).model_copy(update={"verdict": Verdict.model_validate(bad)})
    timing = TimingNotMeasured(reason="no GPU")
    assert branch_start(at()) == "coder"
    assert branch_start(at(tried(2, None))) == "verifier"
    assert branch_start(at(wrong)) == "coder"
    assert branch_start(at(wrong, wrong.model_copy(update={"id": 3, "strategy": "repair"}))) == "end"
    assert branch_start(at(tried(2, "accepted"))) == "tuner"
    assert branch_start(at(tried(2, "accepted", timing=timing))) == "end"
    assert branch_start(at(tried(2, "accepted"), tried(3, None, "tune"))) == "verifier"
    assert branch_start(at(tried(2, "accepted"), tried(3, "rejected", "tune"))) == "profiler"


def test_a_cut_off_branch_gets_its_attempts_back_and_does_not_know_them_as_others() -> None:
    own = Attempt(id=6, parent=1, sha256="b", design="own", branch="r1b2")
    other = Attempt(id=2, parent=1, sha256="c", design="other", branch="r1b1")
    state = cut().model_copy(update={"attempts": {1: GOOD, 2: other, 6: own}})
    change, _ = go_on_from(state)
    (branch,) = branches_of(state.model_copy(update=change))
    assert branch.attempts == {1: GOOD, 6: own}
    assert branch.known == {2: "other"}


def test_a_branch_is_told_what_became_of_earlier_ideas() -> None:
    later = BranchPlan(name="r2b1", parent=1, strategy="launch_bounds", first=10, last=13)
    lost = Contest(base=1, challenger=2, basis="counts", better=False, reason="the same in everything")
    state = cut().model_copy(update={
        "rounds": {
            1: Round(number=1, base=1, branches=PLANS, contests=(lost,), reason="attempt 1 stays"),
            2: Round(number=2, base=1, branches=(later,)),
        },
        "ended": {"r1b2": BranchEnd(reason="not_applicable", detail="one block is enough")},
        "decision": Decision(action="branch", parent=1, round=2, branches=(later,)),
        "stop": None,
    })  # fmt: skip
    (branch,) = branches_of(state)
    assert branch.tried == (
        "round 1, vector_loads: the same in everything",
        "round 1, persistent_grid: does not apply: one block is enough",
    )
