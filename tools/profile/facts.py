"""What the compiler and the IR tell of a kernel before anything is measured."""

from collections.abc import Sequence

from cuda_harness.state.expr import ExprError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import InstructionMix, KernelFacts
from cuda_harness.tools.execute.protocol import LaunchOp, Program

_FACTS = ("registers", "shared_bytes", "spill_store_bytes", "spill_load_bytes", "stack_bytes")
_MIX = ("fma", "mma", "barriers", "atomics", "approximate", "branches", "local", "shared", "total")
_WARPS, _REGISTERS, _BLOCKS, _SHARED = 64, 65_536, 32, 228 * 1024
"""Of one multiprocessor of compute capability 9.0 and 10.0."""


def static_metrics(kernels: Sequence[KernelFacts], ir: KernelIR | None) -> dict[str, float]:
    """Return compiler facts by `KERNEL.fact` and the IR's cost at the target."""
    found: dict[str, float] = {}
    for facts in kernels:
        for name in _FACTS:
            value = getattr(facts, name)
            if value is not None:
                found[f"{facts.name}.{name}"] = float(value)
    return found | _cost(ir)


def mix_metrics(mixes: Sequence[InstructionMix]) -> dict[str, float]:
    """Return static instruction counts by `KERNEL.instructions_NAME`."""
    return {f"{m.kernel}.instructions_{name}": float(getattr(m, name)) for m in mixes for name in _MIX}


def _cost(ir: KernelIR | None) -> dict[str, float]:
    if ir is None:
        return {}
    try:
        flops, moved = ir.cost.flops.evaluate(ir.target_dims), ir.cost.bytes.evaluate(ir.target_dims)
    except ExprError:
        return {}
    found = {name: float(value) for name, value in (("flops", flops), ("bytes", moved)) if value > 0}
    if len(found) == 2:
        found["flops_per_byte"] = flops / moved
    return found


def theoretical_occupancy(program: Program | None, kernels: Sequence[KernelFacts]) -> float | None:
    """Return the least share of a multiprocessor's warps that any launch can keep resident, `None` when not known.

    Limits of compute capability 9.0: 64 warps, 32 blocks, 65536 registers in units of 256 a warp, 228 KiB of shared
    memory with 1 KiB a block for the system (CUDA C++ Programming Guide, technical specifications).
    """
    if program is None:
        return None
    by_name = {k.name: k for k in kernels}
    shares = []
    for op in program.ops:
        facts = by_name.get(op.kernel) if isinstance(op, LaunchOp) else None
        if not isinstance(op, LaunchOp) or facts is None or facts.registers is None:
            continue
        warps = -(-op.block[0] * op.block[1] * op.block[2] // 32)
        registers = -(-facts.registers * 32 // 256) * 256 * warps
        shared = (facts.shared_bytes or 0) + op.shared_bytes + 1024
        blocks = min(_BLOCKS, _WARPS // warps, _REGISTERS // max(1, registers), _SHARED // shared)
        shares.append(min(1.0, blocks * warps / _WARPS))
    return min(shares, default=None)


def widest_load(mixes: Sequence[InstructionMix]) -> int | None:
    """Return the widest global load in bytes, `None` where no kernel has one or nothing is known."""
    return max((int(width) for m in mixes for width, count in m.global_loads.items() if count), default=None)
