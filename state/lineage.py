"""Questions about the attempts of a run, answered from the state alone: routers and roles share them."""

import re
from collections.abc import Mapping
from typing import Literal

from cuda_harness.state.attempt import Attempt
from cuda_harness.state.budget import Budget
from cuda_harness.state.rounds import BranchPlan, Round

Attempts = Mapping[int, Attempt]
CorrectnessStep = Literal["repair", "redesign", "give_up"]
BranchStep = Literal["write", "repair", "end"]

_HOPELESS = frozenset({"environment", "oracle", "weak_suite", "resources"})
"""Classes that another kernel cannot mend."""
SAME_FAULT_LIMIT = 3
"""After the same failure this many times in a row, asking again is not the way."""
MOST_REPETITIONS = 2
"""Nor after this many replies in one design that only repeat a kernel."""


def latest(attempts: Attempts) -> Attempt | None:
    """Return the newest attempt, `None` before the first."""
    return attempts[max(attempts)] if attempts else None


def best_verified(attempts: Attempts) -> Attempt | None:
    """Return the fastest verified attempt; untimed ones rank behind, the earlier one first."""
    verified = [a for a in attempts.values() if a.status == "verified"]
    return min(verified, key=lambda a: (a.median_us is None, a.median_us or 0.0, a.id), default=None)


def base_of(attempts: Attempts, rounds: Mapping[int, Round]) -> Attempt | None:
    """Return the best verified kernel: the base that the rounds left, else the fastest of the first ones.

    A kernel becomes base only by clearing the old base, so a faster single reading never replaces it.
    """
    if rounds:
        last = attempts.get(rounds[max(rounds)].base_after)
        if last is not None and last.status == "verified":
            return last
    return best_verified({i: a for i, a in attempts.items() if a.branch == "main"}) or best_verified(attempts)


def branch_step(attempts: Attempts, plan: BranchPlan, budget: Budget) -> BranchStep:
    """Return what a branch does next: its first kernel, a repair, or its end.

    An idea is given up when its repairs are spent, when the same failure comes twice, and at once when no kernel
    can mend the failure or when the author only repeats what was judged before.
    """
    own = [attempts[i] for i in sorted(attempts) if plan.owns(i)]
    if not own:
        return "write"
    last = own[-1]
    if last.status == "verified" or last.duplicate_of is not None:
        return "end"
    if last.failure_class in _HOPELESS | {"unsupported"} or _was_left_open(last):
        return "end"
    written = [a for a in own if a.strategy != "tune"]
    repeated = len(written) > 1 and failure_pattern(written[-1]) == failure_pattern(written[-2])
    if len(written) > budget.branch_repairs or repeated or last.id >= plan.last:
        return "end"
    return "repair"


def best_unverified(attempts: Attempts) -> Attempt | None:
    """Return the undecided attempt that climbed highest, the later one first; `None` if there is none."""
    undecided = [a for a in attempts.values() if a.status == "undecided" and a.verdict is not None]
    return max(undecided, key=lambda a: (_stages_passed(a), a.id), default=None)


def furthest(attempts: Attempts) -> Attempt | None:
    """Return the judged attempt that climbed the ladder highest, the later one first."""
    judged = [a for a in attempts.values() if a.verdict is not None]
    return max(judged, key=lambda a: (_stages_passed(a), a.id), default=None)


def design_of(attempts: Attempts, attempt: Attempt) -> list[Attempt]:
    """Return the chain from the design's first kernel to `attempt`: repairs belong to the design they mend."""
    chain = [attempt]
    while chain[0].strategy == "repair" and chain[0].parent is not None and chain[0].parent in attempts:
        chain.insert(0, attempts[chain[0].parent])
    return chain


def correctness_step(attempts: Attempts, budget: Budget) -> CorrectnessStep:
    """Return what to do about the newest attempt, which is not verified.

    A repeated failure (same class, same message but for numbers) and a feature the executor lacks change the
    design at once; failures nobody's kernel can mend end the search and cost nothing.
    """
    last = latest(attempts)
    if last is None:
        return "redesign"
    if last.failure_class in _HOPELESS or _was_left_open(last):
        return "give_up"
    chain = design_of(attempts, last)
    repairs = sum(a.strategy == "repair" for a in chain)
    recent = [failure_pattern(a) for a in chain[-SAME_FAULT_LIMIT:]]
    stuck = len(recent) == SAME_FAULT_LIMIT and len(set(recent)) == 1
    stuck = stuck or sum(a.duplicate_of is not None for a in chain) >= MOST_REPETITIONS
    if last.failure_class != "unsupported" and repairs < budget.repairs and not stuck:
        return "repair"
    redesigns = sum(a.strategy == "redesign" for a in attempts.values())
    return "redesign" if redesigns < budget.redesigns else "give_up"


def _was_left_open(attempt: Attempt) -> bool:
    """Return whether no stage failed and the kernel still is not proved: nothing that its author could mend."""
    return attempt.status == "undecided" and attempt.failure_class is None


def failure_pattern(attempt: Attempt) -> str:
    """Return class and message of a failure with every number replaced: equal for the same mistake."""
    if attempt.verdict is None or attempt.verdict.failure is None:
        return f"unusable: {attempt.unusable}"
    failure = attempt.verdict.failure
    return f"{failure.stage}/{failure.class_}: {re.sub(r'[-+]?[0-9][0-9.e+-]*', '#', failure.message)}"


def _stages_passed(attempt: Attempt) -> int:
    return sum(s.status == "passed" for s in attempt.verdict.stages) if attempt.verdict else 0
