"""A stopped run goes on where it stood; a round that was cut off sends out only the branches without an end."""

from cuda_harness.graph.nodes import Node
from cuda_harness.graph.resuming import cut_off, go_on_from, stood_at
from cuda_harness.graph.routers import after_evolver
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.budget import Stop
from cuda_harness.state.harness import BranchState, HarnessState
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import Verdict
from cuda_harness.state.rounds import BranchEnd, BranchPlan, Round
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
