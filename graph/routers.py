"""Edges: pure, total functions of the state."""

from typing import Literal

from cuda_harness.state.harness import HarnessState
from cuda_harness.state.lineage import correctness_step, latest


def after_intake(state: HarnessState) -> Literal["planner", "synthesizer", "deliver"]:
    """Plan, unless the IR was given."""
    if state.stop is not None:
        return "deliver"
    return "planner" if state.ir is None else "synthesizer"


def after_planner(state: HarnessState) -> Literal["synthesizer", "deliver"]:
    """Without an IR there is nothing to build on."""
    return "deliver" if state.stop is not None or state.ir is None else "synthesizer"


def after_synthesizer(state: HarnessState) -> Literal["coder", "deliver"]:
    """No kernel is written before a judge exists that was itself judged."""
    return "deliver" if state.stop is not None or state.suite is None else "coder"


def after_coder(state: HarnessState) -> Literal["verifier", "coder", "deliver"]:
    """Judge a new kernel; a reply without one counts as a failed attempt."""
    if state.stop is not None:
        return "deliver"
    last = latest(state.attempts)
    if last is not None and last.status == "written":
        return "verifier"
    return _repair_or_deliver(state)


def after_verifier(state: HarnessState) -> Literal["coder", "profiler", "deliver"]:
    """A failing kernel goes to correctness repair before any optimisation node."""
    if state.stop is not None:
        return "deliver"
    last = latest(state.attempts)
    if last is not None and last.status == "verified":
        return "profiler"
    return _repair_or_deliver(state)


def after_profiler(state: HarnessState) -> Literal["evolver", "deliver"]:
    """The Evolver decides on what was measured."""
    return "deliver" if state.stop is not None else "evolver"


def after_evolver(state: HarnessState) -> Literal["coder", "deliver"]:
    """Go on with an idea, or end."""
    if state.stop is not None or state.decision is None or state.decision.action == "stop":
        return "deliver"
    return "coder"


def _repair_or_deliver(state: HarnessState) -> Literal["coder", "deliver"]:
    return "deliver" if correctness_step(state.attempts, state.budget) == "give_up" else "coder"
