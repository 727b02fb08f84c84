"""Edges: pure, total functions of the state."""

from typing import Literal

from langgraph.types import Send

from cuda_harness.state.harness import BranchState, HarnessState
from cuda_harness.state.lineage import branch_step, correctness_step, latest
from cuda_harness.state.serde import clipped
from cuda_harness.tools.evolve.population import rounds_as_rows

MOST_TRIED = 12
MOST_CHARS = 300
"""Ideas of earlier rounds that a branch is told of, the newest, and how much of each."""


def after_intake(state: HarnessState) -> Literal["planner", "synthesizer", "deliver"]:
    """Plan, unless the IR was given."""
    if state.stop is not None:
        return "deliver"
    return "planner" if state.ir is None else "synthesizer"


def after_planner(state: HarnessState) -> Literal["question", "synthesizer", "deliver"]:
    """Without an IR there is nothing to build on; with `ask` the user is asked first."""
    if state.stop is not None or state.ir is None:
        return "deliver"
    return "question" if state.ask else "synthesizer"


def after_question(state: HarnessState) -> Literal["planner", "synthesizer", "deliver"]:
    """Facts that differ from what was assumed make another IR."""
    if state.stop is not None:
        return "deliver"
    return "planner" if state.facts else "synthesizer"


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


def after_verifier(state: HarnessState) -> Literal["coder", "tuner", "profiler", "deliver"]:
    """A failing kernel goes to correctness repair before any optimisation node.

    Other tunables that fail are dropped: the kernel that they were found for is verified.
    """
    if state.stop is not None:
        return "deliver"
    last = latest(state.attempts)
    if last is not None and last.strategy == "tune":
        return "profiler"
    if last is not None and last.status == "verified":
        return "tuner"
    return _repair_or_deliver(state)


def after_tuner(state: HarnessState) -> Literal["verifier", "profiler", "deliver"]:
    """Other tunables make another kernel, which is judged like any."""
    if state.stop is not None:
        return "deliver"
    last = latest(state.attempts)
    return "verifier" if last is not None and last.status == "written" else "profiler"


def after_profiler(state: HarnessState) -> Literal["evolver", "deliver"]:
    """The Evolver decides on what was measured."""
    return "deliver" if state.stop is not None else "evolver"


def after_evolver(state: HarnessState) -> Literal["coder", "deliver"] | list[Send]:
    """Go on with the kernel, with a round of branches at once, or end."""
    if state.stop is not None or state.decision is None or state.decision.action == "stop":
        return "deliver"
    if state.decision.action == "branch":
        started = branches_of(state)
        return [Send("branch", branch) for branch in started] if started else "deliver"
    return "coder"


def branches_of(state: HarnessState) -> list[BranchState]:
    """Return the state that each branch of the decided round starts from: its parent and its idea.

    A branch that a stop cut off gets its own attempts back, and goes on behind them.
    """
    if state.decision is None:
        return []
    known = {a.id: a.design for a in state.attempts.values() if a.design is not None}
    settled = {n: r for n, r in state.rounds.items() if n != state.decision.round}
    tried = tuple(
        clipped(
            f"round {row['round']}, {row['strategy']}: {'kept; ' if row['kept'] else ''}{row['reason']}",
            MOST_CHARS,
        )
        for row in rounds_as_rows(settled, state.attempts, state.ended)
    )[-MOST_TRIED:]
    return [
        BranchState(
            plan=plan, run_dir=state.run_dir, target=state.target, budget=state.budget, ir=state.ir, suite=state.suite,
            known={i: design for i, design in known.items() if not plan.owns(i)}, tried=tried,
            attempts={i: a for i, a in state.attempts.items() if i == plan.parent or plan.owns(i)},
        )
        for plan in state.decision.branches
        if plan.parent in state.attempts
    ]  # fmt: skip


def branch_start(state: BranchState) -> Literal["coder", "verifier", "tuner", "profiler", "end"]:
    """Begin with the idea; where the branch was cut off, go on behind its last attempt."""
    last = latest(state.own)
    if last is None:
        return "coder"
    if last.status == "written":
        return "verifier"
    if last.strategy == "tune":
        return "profiler"
    if last.status == "verified":
        return "tuner" if last.timing is None else "end"
    return "end" if branch_step(state.own, state.plan, state.budget) == "end" else "coder"


def branch_after_coder(state: BranchState) -> Literal["verifier", "coder", "end"]:
    """Judge a new kernel; a reply without one counts as a failed attempt of the branch."""
    if state.plan.name in state.ended:
        return "end"
    last = latest(state.own)
    if last is not None and last.status == "written":
        return "verifier"
    return "end" if branch_step(state.own, state.plan, state.budget) == "end" else "coder"


def branch_after_verifier(state: BranchState) -> Literal["coder", "tuner", "profiler", "end"]:
    """Repair a failing kernel; tune a right one, then time it."""
    if state.plan.name in state.ended:
        return "end"
    last = latest(state.own)
    if last is not None and last.strategy == "tune":
        return "profiler"
    if last is not None and last.status == "verified":
        return "tuner"
    return "end" if branch_step(state.own, state.plan, state.budget) == "end" else "coder"


def branch_after_tuner(state: BranchState) -> Literal["verifier", "profiler", "end"]:
    """Other tunables make another kernel, which is judged like any."""
    if state.plan.name in state.ended:
        return "end"
    last = latest(state.own)
    return "verifier" if last is not None and last.status == "written" else "profiler"


def _repair_or_deliver(state: HarnessState) -> Literal["coder", "deliver"]:
    return "deliver" if correctness_step(state.attempts, state.budget) == "give_up" else "coder"
