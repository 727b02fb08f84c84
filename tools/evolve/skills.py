"""Which skill notes a Coder is shown: the two or three that fit, never all."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from cuda_harness.tools.evolve.strategies import BY_NAME
from cuda_harness.tools.evolve.traits import Evidence

MOST = 3


class Note(Protocol):
    """A skill note's head."""

    @property
    def name(self) -> str:
        """Its name, a strategy's."""
        ...

    @property
    def applies_to(self) -> tuple[str, ...]:
        """Traits of problems or kernels that it is for."""
        ...


def pick_skills(
    evidence: Evidence, notes: Iterable[Note], *, strategy: str | None = None, most: int = MOST
) -> tuple[str, ...]:
    """Return the names of the notes to show, the same for the same evidence.

    With a strategy of ours: its own note and those related to it. Otherwise the notes that apply to the most traits
    of the problem, in the order of the strategies.
    """
    known = {note.name: note for note in notes}
    if strategy in BY_NAME:
        chosen = [n for n in (strategy, *BY_NAME[strategy].related) if n in known]
        return tuple(chosen[:most])
    traits = {*evidence.ir_traits, *evidence.source_traits}
    order = {name: place for place, name in enumerate(BY_NAME)}
    scored = [(len(traits & set(note.applies_to)), name) for name, note in known.items()]
    fitting = sorted((-score, order.get(name, len(order)), name) for score, name in scored if score)
    return _names(fitting, most - 1)


def _names(rows: Sequence[tuple[int, int, str]], most: int) -> tuple[str, ...]:
    return tuple(name for _, _, name in rows[:most])
