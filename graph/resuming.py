"""Where a stopped run goes on: the node that it stood at, and the branches that were cut off."""

from typing import Any

from cuda_harness.graph.nodes import Node
from cuda_harness.graph.outcome import stop_reason
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.harness import Decision, HarnessState
from cuda_harness.state.lineage import base_of, latest
from cuda_harness.state.rounds import BranchEnd, BranchPlan, Round

GO_ON = frozenset({"budget", "model_failed", "environment", "interrupted"})
"""Stops after which a resumed run goes on."""
FINISHED = frozenset({"verified", "no_gain", "strategies_exhausted", "target_reached", "no_correct_kernel"})
"""Stops after which it goes on only when it is given something that it did not have."""
LATER = "went on in a later session"


def goes_on(state: HarnessState, *, given: bool, executor: str | None) -> bool:
    """Return whether a run that ended has something left to do.

    Args:
        state: Its last state.
        given: Whether its budget or its model is another one than it ended with.
        executor: Name of the executor at hand, `None` where there is none.
    """
    reason = stop_reason(state).reason
    return reason in GO_ON or (given and reason in FINISHED) or to_judge_again(state, executor) is not None


def to_judge_again(state: HarnessState, executor: str | None) -> Attempt | None:
    """Return the kernel whose verdict does not hold any more: nobody decided it, or another executor did.

    Once there are rounds their kernels were judged and compared by one executor, and stay as they are.
    """
    last = latest(state.attempts)
    if last is None or last.verdict is None or state.suite is None or executor is None:
        return None
    if last.status == "undecided" and base_of(state.attempts, state.rounds) is None:
        return last
    is_other = last.status == "verified" and last.verdict.executor != executor
    return last if is_other and not state.rounds else None


def go_on_from(state: HarnessState, *, executor: str | None = None) -> tuple[dict[str, Any], Node]:
    """Return the change of a stopped run's state, and the node whose edge leads on from it.

    A round that was cut off is opened again, and only its branches that had no end are sent out. They find their
    finished replies in the run's folder. A search that had come to its end gets a round without branches: patience
    and the names of the Evolver's replies count from there.
    """
    change: dict[str, Any] = {"stop": None, "result": None}
    again = to_judge_again(state, executor)
    if again is not None:
        blank = again.model_copy(update={"verdict": None, "timing": None, "profile": None})
        return {**change, "attempts": {again.id: blank}}, Node.CODER
    cut = cut_off(state)
    if not cut:
        base = base_of(state.attempts, state.rounds)
        if base is not None and state.rounds and stop_reason(state).reason in FINISHED:
            number = max(state.rounds) + 1
            change["rounds"] = {number: Round(number=number, base=base.id, reason=LATER)}
        return change, stood_at(state)
    number = max(state.rounds)
    opened = state.rounds[number].model_copy(update={"contests": (), "winner": None, "reason": ""})
    went_on = BranchEnd(reason="stopped", detail=LATER)
    change |= {
        "rounds": {number: opened},
        "ended": {plan.name: went_on for plan in cut},
        "decision": Decision(action="branch", parent=opened.base, round=number, branches=cut),
    }
    return change, Node.EVOLVER


def cut_off(state: HarnessState) -> tuple[BranchPlan, ...]:
    """Return the branches of the newest round that a stop of the whole run ended."""
    if not state.rounds:
        return ()
    ends = state.ended
    return tuple(
        plan
        for plan in state.rounds[max(state.rounds)].branches
        if plan.name in ends and ends[plan.name].stop is not None
    )


def stood_at(state: HarnessState) -> Node:
    """Return the node whose edge leads on from this state."""
    last = latest(state.attempts)
    if state.ir is None:
        return Node.INTAKE
    if state.suite is None:
        return Node.PLANNER
    if base_of(state.attempts, state.rounds) is not None:
        return Node.PROFILER
    if last is None:
        return Node.SYNTHESIZER
    if last.verdict is None:
        return Node.CODER
    return Node.VERIFIER
