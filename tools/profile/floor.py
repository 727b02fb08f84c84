"""The physical floor of a problem on a device: no right kernel is faster."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cuda_harness.state.expr import ExprError
from cuda_harness.state.ir import KernelIR, Tensor
from cuda_harness.state.names import ITEM_BYTES
from cuda_harness.tools.profile.ceilings import Ceilings

__all__ = ["Ceilings", "Floor", "compulsory_bytes", "floor", "rate_for", "touched_in_part"]

_SOME_ELEMENTS = re.compile(
    r"gather|scatter|lookup|look_up|search|select|compact|append|index|embed|sparse|csr|spmv|histogram|graph|bfs|walk|crop|"
    r"slice|stride|sample|pool|triang|cholesky|band|diagonal|early|while|where|mask",
    re.IGNORECASE,
)
"""Operations that may leave part of a tensor untouched: which part depends on data or on the step's own arithmetic."""
MARGIN = 0.03
"""A measured bandwidth may be this far below what the device does at its best."""
SLACK = 0.1
"""A time may lie this far below a bound that is measured, not proved: the bound is then reached, not refuted."""


@dataclass(frozen=True)
class Floor:
    """Bounds in microseconds; only `proof_us` rejects, the others tell how far there is to go."""

    bytes_us: float
    """All compulsory bytes at the measured bandwidths of their directions."""
    proof_us: float
    """The same without what a right kernel might leave out, over the best bandwidth, less a margin."""
    compulsory_bytes: int
    proof_bytes: int
    flops: int | None
    flops_us: float | None
    launch_us: float

    @property
    def us(self) -> float:
        """The largest bound."""
        return max(self.bytes_us, self.flops_us or 0.0, self.launch_us)

    @property
    def of(self) -> Literal["bytes", "flops", "launch"]:
        """Which bound is the largest."""
        if self.flops_us is not None and self.flops_us >= max(self.bytes_us, self.launch_us):
            return "flops"
        return "bytes" if self.bytes_us >= self.launch_us else "launch"

    def impossible(self, cold_us: float) -> str | None:
        """Return the arithmetic that refutes a time with cold caches, `None` when it is possible."""
        if cold_us >= self.proof_us:
            return None
        rate = self.proof_bytes / cold_us / 1e6
        return (
            f"{cold_us:.2f} us is below what is possible: {self.proof_bytes} bytes must cross memory, which would be "
            f"{rate:.2f} TB/s; at the best bandwidth measured here they take {self.proof_us:.2f} us"
        )

    def doubts(self, cold_us: float) -> tuple[str, ...]:
        """Return remarks on a possible time that lies below a bound."""
        found = []
        if self.flops_us is not None and cold_us < self.flops_us:
            found.append(
                f"faster than the IR's {self.flops} operations allow ({self.flops_us:.2f} us at the measured rate): "
                "check the cost formula"
            )
        if cold_us < self.bytes_us * (1 - SLACK):
            found.append(
                f"faster than {self.compulsory_bytes} bytes at the measured bandwidth ({self.bytes_us:.2f} us): "
                "part of them stayed in L2 or was not touched"
            )
        return tuple(found)

    def reached(self, median_us: float) -> tuple[float, Literal["bytes", "flops", "launch"]]:
        """Return the largest bound that a measured time does not break, and which it is; never more than the time.

        A bound up to 10 % above the time counts as reached: bandwidths and launches are measured as well.
        """
        bounds: list[tuple[float, Literal["bytes", "flops", "launch"]]] = [
            (self.bytes_us, "bytes"), (self.proof_us, "bytes"), (self.launch_us, "launch"),
        ]  # fmt: skip
        if self.flops_us is not None:
            bounds.append((self.flops_us, "flops"))
        kept = [b for b in bounds if 0 < b[0] * (1 - SLACK) <= median_us]
        largest, of = max(kept, default=(median_us, "launch"))
        return min(largest, median_us), of


def tensor_bytes(tensor: Tensor, dims: Mapping[str, int]) -> int:
    """Return the bytes of a tensor at these sizes."""
    count = 1
    for size in tensor.dims(dims):
        count *= size
    return count * ITEM_BYTES[tensor.dtype]


def compulsory_bytes(ir: KernelIR, dims: Mapping[str, int]) -> int:
    """Return bytes that cross memory at least once: each input that matters read, each output written."""
    return sum(_read(t, dims) + _written(t, dims) for t in ir.tensors)


def touched_in_part(ir: KernelIR) -> frozenset[str]:
    """Return tensors of which a right kernel may leave elements alone, as far as the IR's steps tell.

    Those are tensors indexed by another tensor's values (`table[ids[i], j]`), tensors of steps whose operation may
    skip elements, and tensors that no step names.
    """
    names = {t.name for t in ir.tensors}
    found: set[str] = set()
    named: set[str] = set()
    for step in ir.steps:
        mine = {*step.reads, *step.writes} & names
        named |= mine
        if _SOME_ELEMENTS.search(f"{step.id} {step.op}"):
            found |= mine
        for name in mine:
            for inside in _subscripts(step.formula, name):
                # An index that is data, a product or a quotient need not reach every element.
                if re.search(r"[\[*/%?]", inside) or any(re.search(rf"\b{m}\b", inside) for m in names):
                    found.add(name)
    return frozenset(found | (names - named))


def _subscripts(formula: str, name: str) -> list[str]:
    """Return the text inside the brackets that follow `name`."""
    found = []
    for match in re.finditer(rf"\b{re.escape(name)}\s*\[", formula):
        depth, at = 1, match.end()
        while at < len(formula) and depth:
            depth += {"[": 1, "]": -1}.get(formula[at], 0)
            at += 1
        found.append(formula[match.end() : at - 1])
    return found


def _read(tensor: Tensor, dims: Mapping[str, int]) -> int:
    return tensor_bytes(tensor, dims) if tensor.role != "out" and not tensor.unused else 0


def _written(tensor: Tensor, dims: Mapping[str, int]) -> int:
    return tensor_bytes(tensor, dims) if tensor.role != "in" else 0


def rate_for(ir: KernelIR, ceilings: Ceilings) -> float | None:
    """Return the highest rate in operations a second that the IR's types allow; `None` where it was not measured."""
    halves = any(t.dtype in {"float16", "bfloat16"} or t.dtype.startswith("float8") for t in ir.tensors)
    if any(t.dtype in {"int8", "uint8"} for t in ir.inputs):
        return None
    if halves or ir.numerics.precision != "strict":
        return ceilings.tensor_flops_per_s
    return ceilings.flops_per_s


def floor(ir: KernelIR, dims: Mapping[str, int], ceilings: Ceilings) -> Floor:
    """Return the floor of `ir` at `dims` on a device with these ceilings, cold caches assumed.

    Writes may still lie in L2 when the last event is recorded, so the proof counts only those beyond its size.
    """
    part = touched_in_part(ir)
    moved = compulsory_bytes(ir, dims)
    reads = sum(_read(t, dims) for t in ir.tensors if t.name not in part)
    writes = sum(_written(t, dims) for t in ir.tensors if t.name not in part)
    proved = reads + max(0, writes - ceilings.l2_bytes)
    rate = rate_for(ir, ceilings)
    try:
        flops = ir.cost.flops.evaluate(dims) or None
    except ExprError:
        flops = None
    return Floor(
        bytes_us=ceilings.streaming_us(
            sum(_read(t, dims) for t in ir.tensors), sum(_written(t, dims) for t in ir.tensors)
        ),
        proof_us=proved / ceilings.most_bytes_per_s * 1e6 * (1 - MARGIN),
        compulsory_bytes=moved, proof_bytes=proved, flops=flops, flops_us=flops / rate * 1e6 if flops and rate else None,
        launch_us=ceilings.launch_us,
    )  # fmt: skip
