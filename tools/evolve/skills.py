"""Which skill notes a Coder is shown: the two or three that fit, never all."""

from collections.abc import Collection, Iterable
from typing import Protocol

from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.evolve.strategies import BY_NAME
from cuda_harness.tools.evolve.traits import Evidence, ir_traits

MOST = 3


class Note(Protocol):
    """A skill note's head."""

    @property
    def name(self) -> str:
        """Its name, a strategy's."""
        ...


def pick_skills(
    evidence: Evidence,
    notes: Iterable[Note],
    *,
    strategy: str | None = None,
    tried: Collection[str] = (),
    most: int = MOST,
) -> tuple[str, ...]:
    """Return the names of the notes to show, the same for the same evidence.

    With a strategy of ours: its own note and those related to it. Without one, or for an idea of a model's: the notes
    of the strategies that would fit, the largest gain first, without those that were tried.
    """
    known = {note.name for note in notes}
    if strategy in BY_NAME:
        return tuple(n for n in (strategy, *BY_NAME[strategy].related) if n in known)[:most]
    fitting = [s for s in BY_NAME.values() if s.name in known - set(tried) and s.fits(evidence)]
    order = list(BY_NAME)
    fitting.sort(key=lambda s: (-s.gain, order.index(s.name)))
    return tuple(s.name for s in fitting[: most - 1])


def first_evidence(ir: KernelIR) -> Evidence:
    """Return the evidence before any kernel exists: that of a plain one, with loops and atomics but nothing clever."""
    return Evidence(
        ir, ir_traits(ir), source_traits=frozenset({"row_loops", "atomic"}), bound=ir.mapping.bound
    )
