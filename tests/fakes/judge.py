"""A judge for the Evolver's rules: contests by given times, no files, no model."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from cuda_harness.agents.ideas import Proposal
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.harness import EvolverView
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.rounds import Contest
from cuda_harness.tools.evolve.contest import by_time
from cuda_harness.tools.evolve.traits import Evidence, evidence_of


@dataclass(frozen=True)
class Ratio:
    """An interleaved comparison as a test states it."""

    ratio: float
    ci95: tuple[float, float]

    @property
    def significant(self) -> bool:
        return self.ci95[0] > 1.0 or self.ci95[1] < 1.0


@dataclass
class FakeJudge:
    """Decides by the times of a table; attempts without one compare as equal."""

    ir: KernelIR
    times_us: Mapping[int, float] = field(default_factory=dict)
    proposals: tuple[Proposal, ...] = ()
    left: int | None = None
    half_width: float = 0.02
    asked: list[int] = field(default_factory=list)
    """Rounds for which the model was asked."""
    measure: Callable[[int, int, int], Ratio] | None = None
    taken: tuple[str, ...] = ()
    """Ideas of the rules in the round for which the model was asked last."""

    def evidence(self, attempt: Attempt) -> Evidence:
        return evidence_of(self.ir, None, attempt.profile)

    def contest(self, base: Attempt, challenger: Attempt, *, number: int) -> Contest:
        if self.measure is not None:
            return by_time(base.id, challenger.id, self.measure(base.id, challenger.id, number), seed=number)
        ratio = self.times_us.get(base.id, 100.0) / self.times_us.get(challenger.id, 100.0)
        interval = (ratio * (1 - self.half_width), ratio * (1 + self.half_width))
        return by_time(base.id, challenger.id, Ratio(ratio, interval), seed=number)

    def propose(
        self, base: Attempt, state: EvolverView, *, number: int, most: int, taken: Collection[str]
    ) -> tuple[Proposal, ...]:
        self.asked.append(number)
        self.taken = tuple(taken)
        return self.proposals[:most]

    def skills(self, strategy: str, evidence: Evidence) -> tuple[str, ...]:
        return ()

    def calls_left(self) -> int | None:
        return self.left
