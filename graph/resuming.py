"""Where a stopped run goes on: the node that it stood at, and the branches that were cut off."""

from typing import Any

from cuda_harness.graph.nodes import Node
from cuda_harness.state.harness import Decision, HarnessState
from cuda_harness.state.lineage import base_of, latest
from cuda_harness.state.rounds import BranchEnd, BranchPlan

GO_ON = frozenset({"budget", "model_failed", "environment", "interrupted"})
"""Stops after which a resumed run goes on."""


def go_on_from(state: HarnessState) -> tuple[dict[str, Any], Node]:
    """Return the change of a stopped run's state, and the node whose edge leads on from it.

    A round that was cut off is opened again, and only its branches that had no end are sent out. They find their
    finished replies in the run's folder.
    """
    change: dict[str, Any] = {"stop": None, "result": None}
    cut = cut_off(state)
    if not cut:
        return change, stood_at(state)
    number = max(state.rounds)
    opened = state.rounds[number].model_copy(update={"contests": (), "winner": None, "reason": ""})
    went_on = BranchEnd(reason="stopped", detail="went on in a later session")
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
