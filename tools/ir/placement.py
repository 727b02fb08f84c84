"""A plan made concrete for the executor that will run it: `blocks_per_sm` is asked of the device's occupancy API."""

from collections.abc import Iterable, Mapping

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel
from cuda_harness.tools.execute.protocol import Executor, Program, launched
from cuda_harness.tools.ir.program import PlanFault, expand
from cuda_harness.tools.toolchain.source import KernelSignature, inspect


def expand_on(
    executor: Executor, kernel: Kernel, ir: KernelIR, *, dims: Mapping[str, int], scalars: Mapping[str, float],
    kernels: Iterable[KernelSignature], arch: str, tunables: Mapping[str, int] | None = None,
) -> Program | PlanFault:  # fmt: skip
    """Return the plan for these sizes on this executor's device, or what is wrong with it.

    Blocks and shared memory of the kernels asked about are taken from a first expansion; executors that cannot tell
    keep the convention of `expand`, two blocks.

    Args:
        executor: Where the plan runs.
        kernel: Source and plan.
        ir: Tensors, scalars and dims.
        dims: A value for each dim.
        scalars: A value for each scalar; those left out take the IR's.
        kernels: Signatures parsed from the source.
        arch: Architecture the source is compiled for.
        tunables: Values over the defaults.
    """
    signatures = tuple(kernels)
    device = executor.device()
    first = expand(
        ir, kernel.plan, dims=dims, scalars=scalars, tunables=tunables, kernels=signatures, device=device
    )
    ask = getattr(executor, "blocks_per_sm", None)
    if ask is None or isinstance(first, PlanFault) or "blocks_per_sm" not in kernel.plan.model_dump_json():
        return first
    resident: dict[str, int] = {}
    for op in launched(first.ops):
        if op.kernel not in resident:
            found = ask(kernel, op, arch=arch, macros=dict(first.macros))
            if found:
                resident[op.kernel] = found
    return expand(
        ir, kernel.plan, dims=dims, scalars=scalars, tunables=tunables, kernels=signatures, device=device,
        occupancy=lambda name: resident.get(name, 2),
    )  # fmt: skip


def at_target(kernel: Kernel, ir: KernelIR, executor: Executor, *, arch: str) -> Program | None:
    """Return what a plan runs at the target size on this executor's device, `None` where it does not expand there."""
    made = expand_on(
        executor, kernel, ir, dims=ir.target_dims, scalars={}, kernels=inspect(kernel.source).kernels, arch=arch
    )  # fmt: skip
    return None if isinstance(made, PlanFault) else made
