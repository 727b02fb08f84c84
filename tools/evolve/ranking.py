"""Which ideas to try next: what fits the evidence, ranked by expected gain and by what worked in this run."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cuda_harness.state.attempt import Attempt
from cuda_harness.state.rounds import BranchEnd, Contest, Round
from cuda_harness.tools.evolve.strategies import STRATEGIES, Strategy
from cuda_harness.tools.evolve.traits import Evidence

TRUST = 1.0
"""How many tries the expected gain counts for against what was seen."""
AFTER_FAILURE = 0.5
"""An idea whose kernel did not pass keeps this share of its expected gain beyond 1."""
MOST_FAILURES = 2
"""Tries in a row without a gain after which an idea is left alone."""


@dataclass(frozen=True)
class Trial:
    """One idea as it was tried."""

    strategy: str
    base: int
    verified: bool
    ratio: float | None
    """Measured speed-up over its base, `None` where it was not measured."""
    kept: bool
    """Whether its kernel became the base."""
    hopeless: bool = False
    """Whether no second try on the same base can help: its author refused, repeated itself, or met a missing feature."""
    gained: bool = False
    """Whether it beat its base; an idea that did, but was not the best of its round, is tried again on the new base."""
    applies: bool = True
    """Whether it applied, by its author; one that did not is left alone for the rest of the run."""


@dataclass(frozen=True)
class Idea:
    """A ranked proposal."""

    strategy: Strategy
    why: str
    expected: float
    """Expected speed-up, the strategy's own corrected by what was seen."""


def trials(
    rounds: Mapping[int, Round],
    attempts: Mapping[int, Attempt],
    ended: Mapping[str, BranchEnd] | None = None,
) -> list[Trial]:
    """Return every idea tried so far, in the order of rounds and branches."""
    found = []
    lost = {r.final.challenger for r in rounds.values() if r.final is not None and not r.final.better}
    for number in sorted(rounds):
        settled = rounds[number]
        winner = None if settled.winner in lost else settled.winner
        for plan in settled.branches:
            own = [a for i, a in attempts.items() if plan.owns(i)]
            contest = _contest_of(settled.contests, {a.id for a in own})
            verified = any(a.status == "verified" for a in own)
            ratio = contest.ratio if contest else None
            kept = contest is not None and _is_winner(contest.challenger, winner, attempts)
            gained = contest is not None and contest.better
            hopeless = verified or any(
                a.duplicate_of is not None or a.failure_class == "unsupported" for a in own
            )
            end = (ended or {}).get(plan.name)
            applies = end is None or end.reason != "not_applicable"
            found.append(
                Trial(plan.strategy, plan.parent, verified, ratio, kept, hopeless or not own, gained, applies)
            )
    return found


def _is_winner(challenger: int, winner: int | None, attempts: Mapping[int, Attempt]) -> bool:
    """Return whether a challenger is the winner, or the same kernel written twice."""
    if winner is None:
        return False
    mine, best = attempts.get(challenger), attempts.get(winner)
    return challenger == winner or bool(mine and best and mine.design and mine.design == best.design)


def _contest_of(contests: Iterable[Contest], own: set[int]) -> Contest | None:
    return next((c for c in contests if c.challenger in own), None)


def ranked(evidence: Evidence, tried: Iterable[Trial], *, base: int) -> list[Idea]:
    """Return the ideas that fit, the most promising first; ties keep the order of `STRATEGIES`.

    An idea that was judged on this very base is not tried again; one whose kernel was not right is, once, behind
    what is new.
    """
    history = list(tried)
    ideas = []
    for strategy in STRATEGIES:
        why = strategy.fits(evidence)
        mine = [t for t in history if t.strategy == strategy.name]
        if not why or any(t.base == base and t.hopeless for t in mine) or failures(mine) >= MOST_FAILURES:
            continue
        if any(t.kept or not t.applies for t in mine):
            continue  # it is in the base already, or has no place in it
        ideas.append(Idea(strategy, why, expected_gain(strategy.gain, mine)))
    order = {s.name: n for n, s in enumerate(STRATEGIES)}
    return sorted(ideas, key=lambda i: (-i.expected, order[i.strategy.name]))


def failures(mine: Iterable[Trial]) -> int:
    """Return how many of the last tries in a row brought nothing."""
    count = 0
    for trial in mine:
        count = 0 if trial.gained else count + 1
    return count


def expected_gain(prior: float, mine: Iterable[Trial]) -> float:
    """Return the prior speed-up drawn towards what was seen: a geometric mean with the prior as `TRUST` tries."""
    gain, weight = prior**TRUST, TRUST
    for trial in mine:
        seen = trial.ratio if trial.ratio is not None else 1.0 + (prior - 1.0) * AFTER_FAILURE
        if not trial.verified:
            seen = 1.0
        gain *= seen
        weight += 1.0
    return float(gain ** (1.0 / weight))
