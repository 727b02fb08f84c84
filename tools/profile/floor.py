"""The physical floor of a problem on a device: no right kernel is faster."""

from collections.abc import Mapping
from dataclasses import dataclass

from cuda_harness.state.expr import ExprError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import ITEM_BYTES


@dataclass(frozen=True)
class Ceilings:
    """Measured limits of one device."""

    bandwidth_bytes_per_s: float
    launch_us: float
    flops_per_s: float | None = None


@dataclass(frozen=True)
class Floor:
    """Bounds in microseconds; `bytes_us` rejects, `flops_us` (from a model's cost) only asks."""

    bytes_us: float
    compulsory_bytes: int
    flops_us: float | None

    @property
    def us(self) -> float:
        """The largest bound that is proved."""
        return self.bytes_us


def compulsory_bytes(ir: KernelIR, dims: Mapping[str, int]) -> int:
    """Return bytes that must cross memory: each input that matters read once, each output written once.

    Index-like access (gathers) may read less than a whole input: an input that some element may skip is the
    IR author's to mark; here every input not marked `unused` counts.
    """
    total = 0
    for tensor in ir.tensors:
        count = 1
        for size in tensor.dims(dims):
            count *= size
        size_bytes = count * ITEM_BYTES[tensor.dtype]
        if tensor.role != "out" and not tensor.unused:
            total += size_bytes
        if tensor.role != "in":
            total += size_bytes
    return total


def floor(ir: KernelIR, dims: Mapping[str, int], ceilings: Ceilings) -> Floor:
    """Return the floor of `ir` at `dims` on a device with these ceilings, cold caches assumed."""
    moved = compulsory_bytes(ir, dims)
    flops_us = None
    if ceilings.flops_per_s:
        try:
            flops_us = ir.cost.flops.evaluate(dims) / ceilings.flops_per_s * 1e6
        except ExprError:
            flops_us = None
    return Floor(moved / ceilings.bandwidth_bytes_per_s * 1e6, moved, flops_us)
