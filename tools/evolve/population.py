"""The attempts of a run as a directed acyclic graph: parent, idea, what was expected to move, what did."""

from collections.abc import Mapping
from typing import Any

import networkx as nx

from cuda_harness.state.attempt import Attempt
from cuda_harness.state.rounds import BranchEnd, BranchPlan, Contest, Round
from cuda_harness.state.serde import clipped


def lineage(attempts: Mapping[int, Attempt], rounds: Mapping[int, Round]) -> "nx.DiGraph[int]":
    """Return the graph with an edge from each parent to its child.

    Nodes carry `strategy branch status median_us`; edges carry `strategy expected measured better reason` as far as
    they are known, `measured` being the speed-up over the base of the child's round.

    Raises:
        ValueError: If a parent is younger than its child, so that there could be a cycle; a bug of ours.
    """
    graph: nx.DiGraph[int] = nx.DiGraph()
    plans = {p.name: p for r in rounds.values() for p in r.branches}
    contests = {c.challenger: c for r in rounds.values() for c in r.contests}
    for number, attempt in sorted(attempts.items()):
        graph.add_node(
            number,
            strategy=attempt.strategy,
            branch=attempt.branch,
            status=attempt.status,
            median_us=attempt.median_us,
        )
    for number, attempt in sorted(attempts.items()):
        if attempt.parent is None:
            continue
        if attempt.parent >= number:
            msg = f"attempt {number} has the younger parent {attempt.parent}"
            raise ValueError(msg)
        graph.add_edge(
            attempt.parent, number, **_moved(attempt, plans.get(attempt.branch), contests.get(number))
        )
    return graph


def _moved(attempt: Attempt, plan: BranchPlan | None, contest: Contest | None) -> dict[str, Any]:
    """Return what an edge says; a repair or a tuning belongs to the idea of its branch."""
    return {
        "strategy": attempt.strategy,
        "expected": plan.gain if plan is not None else None,
        "measured": contest.ratio if contest is not None else None,
        "better": contest.better if contest is not None else None,
        "reason": contest.reason if contest is not None else "",
    }


def rounds_as_rows(
    rounds: Mapping[int, Round], attempts: Mapping[int, Attempt], ended: Mapping[str, BranchEnd] | None = None
) -> list[dict[str, Any]]:
    """Return each branch of each round as one row: what it tried, what was expected, what came of it and why."""
    rows = []
    finals = {r.final.challenger: r.final for r in rounds.values() if r.final is not None}
    for number in sorted(rounds):
        settled = rounds[number]
        for plan in settled.branches:
            contest = next((c for c in settled.contests if plan.owns(c.challenger)), None)
            own = [a for i, a in sorted(attempts.items()) if plan.owns(i)]
            rows.append(
                {
                    "round": number, "branch": plan.name, "parent": plan.parent, "strategy": plan.strategy, "by": plan.by,
                    "why": plan.why, "expected": plan.gain, "attempts": [a.id for a in own],
                    "challenger": contest.challenger if contest else None,
                    "basis": contest.basis if contest else None, "ratio": contest.ratio if contest else None,
                    "ci95": list(contest.ci95) if contest and contest.ci95 else None,
                    "kept": contest is not None and contest.challenger == settled.winner,
                    "confirmed": finals[contest.challenger].better if contest and contest.challenger in finals else None,
                    "reason": contest.reason if contest else _unverified(own, (ended or {}).get(plan.name)),
                }
            )  # fmt: skip
    return rows


def _unverified(own: list[Attempt], end: BranchEnd | None) -> str:
    if end is not None:
        return f"{'does not apply' if end.reason == 'not_applicable' else end.reason}: {clipped(end.detail, 260)}"
    if not own:
        return "no kernel was written"
    last = own[-1]
    if last.duplicate_of is not None:
        return f"the author only repeated attempt {last.duplicate_of}"
    failure = last.verdict.failure if last.verdict is not None else None
    if failure is not None:
        return f"{last.status}: {failure.class_} at {failure.stage}: {failure.message[:200]}"
    return f"{last.status}: {last.unusable[:200]}" if last.unusable else last.status
