"""Limits of a launch, checked before anything runs: what a GPU refuses is refused here, as arithmetic."""

from collections.abc import Iterator

from cuda_harness.tools.execute.protocol import DeviceFacts, JobFault, LaunchOp, Op, Program, WhileOp
from cuda_harness.tools.toolchain.source import SourceFacts


def launches(ops: tuple[Op, ...]) -> Iterator[LaunchOp]:
    """Yield every launch of the operations, those inside loops once."""
    for op in ops:
        if isinstance(op, LaunchOp):
            yield op
        elif isinstance(op, WhileOp):
            yield from launches(op.body)


def launch_fault(program: Program, facts: SourceFacts, device: DeviceFacts) -> JobFault | None:
    """Return what the first launch beyond a limit breaks, `None` when all keep them."""
    for number, op in enumerate(launches(program.ops)):
        broken = _broken(op, facts, device)
        if broken:
            return JobFault(
                "launch_config",
                f"launch {number} of {op.kernel}: {broken}",
                {"kernel": op.kernel, "launch": number},
            )
    return None


def _broken(op: LaunchOp, facts: SourceFacts, device: DeviceFacts) -> str | None:
    for what, sizes, most in (("block", op.block, device.max_block), ("grid", op.grid, device.max_grid)):
        for axis, size, limit in zip("xyz", sizes, most, strict=True):
            if not 1 <= size <= limit:
                return f"{what}.{axis} is {size}, it may be 1 to {limit}"
    x, y, z = op.block
    threads = x * y * z
    if threads > device.max_threads_per_block:
        return f"a block of {x} x {y} x {z} = {threads} threads, at most {device.max_threads_per_block} are possible"
    if not 0 <= op.shared_bytes <= device.shared_bytes_optin:
        return (
            f"{op.shared_bytes} bytes of dynamic shared memory, a block may have {device.shared_bytes_optin}"
        )
    signature = facts.kernel(op.kernel)
    if signature is None or not signature.is_extern_c:
        return 'the source has no `extern "C" __global__` function of this name'
    if signature.launch_bounds is not None and threads > signature.launch_bounds:
        return f"{threads} threads a block, but __launch_bounds__ promises at most {signature.launch_bounds}"
    if len(op.args) != len(signature.parameters):
        return f"{len(op.args)} arguments for {len(signature.parameters)} parameters"
    return None
