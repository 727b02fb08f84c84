"""The limits of a launch: threads, blocks, shared memory, clusters."""

from cuda_harness.tools.execute.protocol import DeviceFacts
from cuda_harness.tools.ir.scope import Broken
from cuda_harness.tools.toolchain.source import KernelSignature


def check_limits(
    d: DeviceFacts,
    where: str,
    signature: KernelSignature,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared: int,
    cluster: tuple[int, int, int] | None,
) -> None:
    """Check a launch against what a device can do and the kernel promises; raises Broken with the arithmetic."""
    threads = block[0] * block[1] * block[2]
    for axis, size, most in zip("xyz", block, d.max_block, strict=True):
        if not 1 <= size <= most:
            raise Broken(
                "launch_config",
                f"{where}: block.{axis} is {size}; it must lie in 1..{most}",
                block=list(block),
            )
    if threads > d.max_threads_per_block:
        arithmetic = " x ".join(map(str, block))
        raise Broken(
            "launch_config",
            f"{where}: a block of {arithmetic} = {threads} threads is more than {d.max_threads_per_block}",
            block=list(block),
        )
    if signature.launch_bounds is not None and threads > signature.launch_bounds:
        raise Broken(
            "launch_config",
            f"{where}: {threads} threads, but __launch_bounds__ promises at most {signature.launch_bounds}",
            block=list(block), line=signature.line,
        )  # fmt: skip
    for axis, size, most in zip("xyz", grid, d.max_grid, strict=True):
        if size > most:
            raise Broken(
                "launch_config",
                f"{where}: grid.{axis} is {size}; at most {most} blocks fit that axis",
                grid=list(grid),
            )
    if not 0 <= shared <= d.shared_bytes_optin:
        raise Broken(
            "launch_config",
            f"{where}: {shared} bytes of dynamic shared memory; a block may have {d.shared_bytes_optin}",
            shared_bytes=shared,
        )
    if cluster is not None:
        size = cluster[0] * cluster[1] * cluster[2]
        if any(c < 1 or g % c for g, c in zip(grid, cluster, strict=True)) or size > 16:
            raise Broken(
                "launch_config",
                f"{where}: cluster {list(cluster)} does not divide grid {list(grid)} or is larger than 16",
            )
