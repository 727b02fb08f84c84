"""What the Evolver's rules are given to decide on: evidence of a kernel, contests, a model's ideas."""

import dataclasses
from collections.abc import Collection
from typing import TYPE_CHECKING

from cuda_harness.agents.ask import shown_set
from cuda_harness.agents.ideas import Proposal, propose
from cuda_harness.agents.judging import clock_of, suite_of, workload_of
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.errors import StateError
from cuda_harness.state.harness import EvolverView
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import Timing, TimingNotMeasured
from cuda_harness.state.rounds import Contest
from cuda_harness.state.serde import clipped
from cuda_harness.state.targets import facts_of
from cuda_harness.tools.evolve.contest import by_counts, by_time, measured
from cuda_harness.tools.evolve.counts import (
    count_run,
    counting_sizes,
    counts_at_target,
    executed_counts,
    static_counts,
)
from cuda_harness.tools.evolve.skills import pick_skills
from cuda_harness.tools.evolve.traits import Evidence, evidence_of

if TYPE_CHECKING:
    from cuda_harness.agents.context import Services
    from cuda_harness.tools.profile.compare import Comparison


class Scales:
    """The Evolver's judge in a run."""

    def __init__(self, services: "Services", state: EvolverView) -> None:
        if state.ir is None and state.attempts:
            msg = "the evolver was reached without an IR"
            raise StateError(msg)
        self._services = services
        self._state = state

    @property
    def _ir(self) -> KernelIR:
        if self._state.ir is None:
            msg = "there is no IR to evolve"
            raise StateError(msg)
        return self._state.ir

    def evidence(self, attempt: Attempt) -> Evidence:
        """Return what is known of a kernel."""
        kernel = self._services.folder.load_kernel(attempt.id)
        return evidence_of(self._ir, kernel, attempt.profile, self.counts(attempt))

    def counts(self, attempt: Attempt) -> dict[str, float]:
        """Return what can be said of a kernel without a clock; where it was not timed, one run is counted."""
        kernel = self._services.folder.load_kernel(attempt.id)
        facts = attempt.verdict.kernels if attempt.verdict else ()
        counted = attempt.profile.metrics if attempt.profile else {}
        if not isinstance(attempt.timing, Timing):
            counted = {**counted, **self._counted(attempt)}
        found = {**static_counts(facts), **executed_counts(counted), **counted}
        executor = self._services.check_executor or self._services.executor
        arch = self._state.target or self._services.target
        return {**found, **counts_at_target(kernel, self._ir, executor, arch=arch)}

    def _counted(self, attempt: Attempt) -> dict[str, float]:
        """Return an executor's counts, kept beside the attempt so that they are taken once."""
        services = self._services
        place = f"{services.folder.attempt_dir(attempt.id)}/counts.json"
        if services.folder.exists(place):
            return {str(k): float(v) for k, v in services.folder.read_json(place)["facts"].items()}
        executor = services.check_executor
        if executor is None:
            return {}
        found = count_run(
            services.folder.load_kernel(attempt.id), self._ir, suite_of(services, self._ir), executor,
            arch=self._state.target or services.target, seed=services.seed,
        )  # fmt: skip
        services.folder.write_json(
            place, {"sizes": counting_sizes(self._ir), "executor": executor.name, "facts": found}
        )
        return found

    def contest(self, base: Attempt, challenger: Attempt, *, number: int) -> Contest:
        """Return whether the challenger beats the base, by time where both were timed."""
        if isinstance(base.timing, Timing) and isinstance(challenger.timing, Timing):
            return self._timed(base, challenger, number)
        return by_counts(base.id, challenger.id, self.counts(base), self.counts(challenger))

    def _timed(self, base: Attempt, challenger: Attempt, number: int) -> Contest:
        seed = (self._services.seed + 101 * number) & 0x7FFFFFFF
        found = measured(lambda s: self._compare(base, challenger, s), seed=seed)
        if isinstance(found, TimingNotMeasured):
            return Contest(
                base=base.id, challenger=challenger.id, basis="time", better=False,
                reason=f"not compared: {found.reason}"[:4_000], seed=seed,
            )  # fmt: skip
        return by_time(base.id, challenger.id, found, seed=seed)

    def _compare(self, base: Attempt, challenger: Attempt, seed: int) -> "Comparison | TimingNotMeasured":
        """Return both kernels timed in turns; the evidence is kept beside the challenger."""
        from cuda_harness.tools.profile.compare import compare

        services = self._services
        clock = clock_of(services)
        if clock is None:
            return TimingNotMeasured(reason=f"executor {services.executor.name!r} does not time plans")
        found = compare(
            services.folder.load_kernel(base.id), services.folder.load_kernel(challenger.id), self._ir, clock,
            work=workload_of(services, self._ir), arch=self._state.target or services.target, seed=seed,
        )  # fmt: skip
        services.folder.write_json(
            f"{services.folder.attempt_dir(challenger.id)}/against-{base.id:03d}-{seed}.json", _plain(found)
        )
        return found

    def propose(
        self, base: Attempt, state: EvolverView, *, number: int, most: int, taken: Collection[str]
    ) -> tuple[Proposal, ...]:
        """Return ideas of the model's."""
        history = [
            f"round {r.number}: {p.strategy}: {_ended(state, p.name, r.contests, p.first, p.last)}"
            for r in state.rounds.values()
            for p in r.branches
        ]
        return propose(
            self._services, round_number=number, most=most, ir=self._ir,
            kernel=self._services.folder.load_kernel(base.id),
            profile=shown_set(base.profile) if base.profile else None,
            target=facts_of(state.target), history=history,
            used={p.strategy for r in state.rounds.values() for p in r.branches} | set(taken),
        )  # fmt: skip

    def skills(self, strategy: str, evidence: Evidence) -> tuple[str, ...]:
        """Return the two or three notes that fit the idea."""
        prompts = self._services.prompts
        notes = [prompts.skill(name) for name in prompts.skills()]
        tried = {p.strategy for r in self._state.rounds.values() for p in r.branches}
        return pick_skills(evidence, notes, strategy=strategy, tried=tried)

    def calls_left(self) -> int | None:
        """Return how many calls may still be made."""
        return self._services.ledger.calls_left()


def _plain(found: "Comparison | TimingNotMeasured") -> dict[str, object]:
    return (
        found.model_dump(mode="json") if isinstance(found, TimingNotMeasured) else dataclasses.asdict(found)
    )


def _ended(state: EvolverView, name: str, contests: tuple[Contest, ...], first: int, last: int) -> str:
    """Return in one line what became of a branch."""
    for contest in contests:
        if first <= contest.challenger <= last:
            return clipped(contest.reason, 300)
    if name in state.ended:
        return f"{state.ended[name].reason}: {clipped(state.ended[name].detail, 300)}"
    own = [a for i, a in sorted(state.attempts.items()) if first <= i <= last]
    if not own:
        return "not started"
    failure = own[-1].verdict.failure if own[-1].verdict else None
    return (
        f"{own[-1].status}, {failure.class_}: {clipped(failure.message, 300)}" if failure else own[-1].status
    )
