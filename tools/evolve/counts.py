"""What can be said of a kernel without a clock: the compiler's facts, and what an executor counts."""

from collections.abc import Mapping

from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import KernelFacts
from cuda_harness.tools.evolve.traits import count_launches

SECTOR_BYTES = 32
"""Global memory moves in sectors of this size (CUDA best practices guide, coalesced access)."""


def static_counts(kernel: Kernel, facts: tuple[KernelFacts, ...]) -> dict[str, float]:
    """Return what compiler and plan say, over all entries: the largest registers and shared memory, all spills.

    A quantity that one entry lacks is left out: a part is no whole.
    """
    found: dict[str, float] = {"launches": float(count_launches(kernel))}
    registers = [k.registers for k in facts]
    shared = [k.shared_bytes for k in facts]
    spills = [n for k in facts for n in (k.spill_store_bytes, k.spill_load_bytes)]
    if facts and None not in registers:
        found["registers"] = float(max(n for n in registers if n is not None))
    if facts and None not in shared:
        found["shared_bytes"] = float(max(n for n in shared if n is not None))
    if facts and None not in spills:
        found["spill_bytes"] = float(sum(n for n in spills if n is not None))
    return found


def executed_counts(facts: Mapping[str, float]) -> dict[str, float]:
    """Return an executor's counts under the names that a contest weighs; what it does not count is left out."""
    found: dict[str, float] = {}
    for name, parts in _PARTS.items():
        held = [facts[part] for part in parts if part in facts]
        if len(held) == len(parts):
            found[name] = float(sum(held))
    return found


_PARTS: dict[str, tuple[str, ...]] = {
    "global_sectors": ("global_load_sectors", "global_store_sectors"),
    "global_bytes": ("global_load_bytes", "global_store_bytes"),
    "shared_bank_conflicts": ("shared_bank_conflicts",),
    "atomics": ("atomics",),
    "barriers": ("barriers",),
    "instructions": ("instructions",),
}
