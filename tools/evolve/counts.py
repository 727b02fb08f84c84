"""What can be said of a kernel without a clock: the compiler's facts, and what an executor counts."""

import math
from collections.abc import Mapping

from cuda_harness.state.expr import ExprError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import KernelFacts
from cuda_harness.tools.execute.protocol import Executor, Job, JobOk, launched
from cuda_harness.tools.ir.placement import at_target, expand_on
from cuda_harness.tools.ir.program import PlanFault
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.toolchain.source import inspect

MOST_ELEMENTS = 1 << 16
"""Elements of all tensors together at which a kernel is counted: some hundred blocks, a second or two."""
DEADLINE_S = 60.0


def static_counts(facts: tuple[KernelFacts, ...]) -> dict[str, float]:
    """Return what the compiler says, over all entries: the largest registers and shared memory, all spills.

    A quantity that one entry lacks is left out: a part is no whole.
    """
    found: dict[str, float] = {}
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
    if facts.get("blocks") and "barriers" in facts:
        found["barriers_per_block"] = facts["barriers"] / facts["blocks"]
    return found


_PARTS: dict[str, tuple[str, ...]] = {
    "global_sectors": ("global_load_sectors", "global_store_sectors"),
    "global_bytes": ("global_load_bytes", "global_store_bytes"),
    "shared_bank_conflicts": ("shared_bank_conflicts",),
    "atomics": ("atomics",),
    "instructions": ("instructions",),
}


def counting_sizes(ir: KernelIR) -> dict[str, int]:
    """Return the sizes at which kernels of this IR are counted: the target's, halved until they are quick to run.

    They depend on the IR alone, so two kernels are always counted at the same ones.
    """
    sizes = ir.target_dims
    while _elements(ir, sizes) > MOST_ELEMENTS:
        for dim in sorted(ir.dims, key=lambda d: (-sizes[d.name], d.name)):
            smaller = {**sizes, dim.name: sizes[dim.name] // 2}
            if sizes[dim.name] > 32 and ir.admits(smaller):
                sizes = smaller
                break
        else:
            return sizes
    return sizes


def count_run(
    kernel: Kernel, ir: KernelIR, suite: Suite, executor: Executor, *, arch: str, seed: int
) -> dict[str, float]:
    """Return what an executor with a check mode counts in one run at `counting_sizes`; empty where it cannot.

    A run that fails here says nothing new: the ladder has judged the kernel.
    """
    sizes = counting_sizes(ir)
    case = suite.cases("target", target=sizes)[0]
    program = expand_on(
        executor, kernel, ir, dims=case.dims, scalars=case.scalars, kernels=inspect(kernel.source).kernels, arch=arch
    )  # fmt: skip
    if isinstance(program, PlanFault):
        return {}
    options = kernel.plan.compile
    done = executor.run(
        Job(
            source=kernel.source, program=program, calls=(suite.inputs(case),), mode="check", count=True, poison=seed & 0xFFFF,
            fast_math=options.fast_math, max_registers=options.max_registers, arch=arch, deadline_s=DEADLINE_S, full_output=False,
        )
    )  # fmt: skip
    if not isinstance(done, JobOk):
        return {}
    blocks = sum(math.prod(op.grid) for op in launched(program.ops))
    return {**done.facts, **({"blocks": float(blocks)} if blocks else {})}


def counts_at_target(kernel: Kernel, ir: KernelIR, executor: Executor, *, arch: str) -> dict[str, float]:
    """Return `launches` at the target size, conditions decided and loops over sizes unrolled, and `threads` of the largest.

    Empty where the plan does not expand there.
    """
    program = at_target(kernel, ir, executor, arch=arch)
    if program is None:
        return {}
    found = list(launched(program.ops))
    threads = max((math.prod(op.grid) * math.prod(op.block) for op in found), default=0)
    return {"launches": float(len(found)), "threads": float(threads)}


def _elements(ir: KernelIR, sizes: Mapping[str, int]) -> int:
    try:
        return sum(math.prod(t.dims(sizes)) for t in ir.tensors)
    except ExprError:
        return 0
