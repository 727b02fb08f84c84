"""Whether a challenger beats the base: by an interleaved measurement, else by what can be counted.

Both rules are one-sided: without evidence that clears its margin, the base stays.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from cuda_harness.state.rounds import Contest

LEAST_GAIN = 1.01
"""A speed-up below one in a hundred is not worth another kernel, however narrow its interval."""


class Measured(Protocol):
    """An interleaved comparison of two kernels, as `tools.profile.compare` returns it."""

    @property
    def ratio(self) -> float:
        """Time of the first over time of the second."""
        ...

    @property
    def ci95(self) -> tuple[float, float]:
        """Interval of the ratio."""
        ...

    @property
    def significant(self) -> bool:
        """Whether the two were told apart."""
        ...


M = TypeVar("M")


def measured(measure: Callable[[int], M], *, seed: int) -> M:
    """Return a comparison, taken once more on another seed when the first contradicts itself.

    An interval that clears the base while the rounds do not agree is what a few interruptions make.
    """
    first = measure(seed)
    low = getattr(first, "ci95", (0.0, 0.0))[0]
    if low > 1.0 and not getattr(first, "significant", True):
        return measure(seed + 1)
    return first


def by_time(base: int, challenger: int, found: Measured, *, seed: int | None = None) -> Contest:
    """Return the contest that a comparison decides: the whole interval must lie above no gain."""
    low, high = found.ci95
    cleared = low > 1.0 and found.significant
    better = cleared and found.ratio >= LEAST_GAIN
    shown = f"{found.ratio:.3f} times as fast as attempt {base} (95 % interval {low:.3f} to {high:.3f})"
    if better:
        reason = f"{shown}: the interval clears the base"
    elif cleared:
        reason = f"{shown}: a gain below {LEAST_GAIN - 1:.0%} is not worth a new base"
    else:
        reason = f"{shown}: not told apart from the base, or slower"
    return Contest(
        base=base, challenger=challenger, basis="time", ratio=found.ratio, ci95=(low, high), better=better,
        reason=reason, seed=seed,
    )  # fmt: skip


@dataclass(frozen=True)
class Quantity:
    """Something that is counted without a GPU, and how much of a change means something."""

    name: str
    words: str
    slack: float = 0.02
    """A relative rise up to this is no loss."""
    gain: float = 0.05
    """A relative fall from this on is a gain."""
    floor: float = 0.0
    """Values up to this are all as good as each other."""


QUANTITIES: tuple[Quantity, ...] = (
    Quantity("global_sectors", "32-byte sectors of global memory"),
    Quantity("global_bytes", "bytes asked of global memory"),
    Quantity("spill_bytes", "bytes of spilled registers in the code", slack=0.0, gain=0.01),
    Quantity("shared_bank_conflicts", "bank conflicts"),
    Quantity("atomics", "atomic operations"),
    Quantity("barriers_per_block", "barriers a block", floor=16.0),
    Quantity("launches", "launches", slack=0.0, gain=0.01),
    Quantity("instructions", "instructions", slack=0.05, gain=0.1),
    Quantity("registers", "registers a thread", slack=0.0, floor=80.0),
    Quantity("shared_bytes", "bytes of shared memory a block", slack=0.0, floor=32_768.0),
)
"""What a static comparison weighs, the most telling first. Below its floor a quantity hides nothing: 80 registers a
thread and 32 KiB a block leave room for four tenths of the threads that a multiprocessor holds, enough where each has
several loads under way (Volkov, Better Performance at Lower Occupancy, 2010), and other blocks fill the time of a few
barriers."""


def _shown(value: float) -> str:
    """Return a count as people write it: whole below ten million, else with four figures."""
    return f"{value:.0f}" if value < 1e7 and value == int(value) else f"{value:.4g}"


def by_counts(base: int, challenger: int, old: Mapping[str, float], new: Mapping[str, float]) -> Contest:
    """Return the contest as a Pareto comparison: better in something, worse in nothing that both know.

    Time was not measured, and the reason says so.
    """
    gains, losses, known = [], [], 0
    for quantity in QUANTITIES:
        before, after = old.get(quantity.name), new.get(quantity.name)
        if before is None or after is None:
            continue
        known += 1
        before, after = max(before, quantity.floor), max(after, quantity.floor)
        text = f"{quantity.words} {_shown(before)} -> {_shown(after)}"
        if after > before * (1 + quantity.slack) + 1e-9:
            losses.append(text)
        elif before > 0 and after <= before * (1 - quantity.gain):
            gains.append(text)
    better = bool(gains) and not losses
    if not known:
        reason = "nothing that both kernels know can be compared"
    elif better:
        reason = f"better in {'; '.join(gains)}, and worse in nothing counted"
    elif gains:
        reason = f"better in {'; '.join(gains)}, but worse in {'; '.join(losses)}"
    else:
        reason = f"worse in {'; '.join(losses)}" if losses else "the same in everything counted"
    return Contest(
        base=base, challenger=challenger, basis="counts", better=better,
        reason=f"{reason}; time was not measured"[:4_000],
    )  # fmt: skip


def choose(contests: tuple[Contest, ...]) -> Contest | None:
    """Return the winning contest, the same for every order: the largest certain gain, then the earlier attempt."""
    won = [c for c in contests if c.better]
    return max(won, key=lambda c: (c.ci95[0] if c.ci95 else 0.0, -c.challenger), default=None)
