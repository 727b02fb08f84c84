"""Launch limits, checked before a launch and told as arithmetic the author can act on; no driver is needed here."""

import math
from dataclasses import dataclass

WARP = 32
PORTABLE_CLUSTER = 8
"""Blocks per cluster that every device with clusters takes (CUDA programming guide, thread block clusters)."""

Axes = tuple[int, int, int]


@dataclass(frozen=True)
class KernelLimits:
    """What one compiled kernel takes on the device at hand."""

    name: str
    registers: int
    """Per thread."""
    static_shared_bytes: int
    max_threads: int
    """Most threads per block: the device's limit, the registers' and `__launch_bounds__`."""


@dataclass(frozen=True)
class DeviceLimits:
    """What one block may take on the device at hand."""

    max_threads_per_block: int
    max_block: Axes
    max_grid: Axes
    shared_bytes_optin: int
    registers_per_block: int
    num_sms: int
    has_clusters: bool


def refuse(
    kernel: KernelLimits, device: DeviceLimits, *, grid: Axes, block: Axes, shared_bytes: int, cluster: Axes | None
) -> str | None:  # fmt: skip
    """Return why this launch cannot work, `None` when nothing speaks against it.

    Args:
        kernel: From the cubin.
        device: From the driver.
        grid: Blocks.
        block: Threads.
        shared_bytes: Dynamic shared memory of a block.
        cluster: Blocks per cluster, `None` without clusters.
    """
    threads = math.prod(block)
    for axis, size, most in zip("xyz", block, device.max_block, strict=True):
        if size > most:
            return f"{kernel.name}: block.{axis} is {size}; at most {most} on this device"
    if threads > device.max_threads_per_block:
        shape = " x ".join(map(str, block))
        return (
            f"{kernel.name}: a block of {shape} = {threads} threads; at most {device.max_threads_per_block}"
        )
    for axis, size, most in zip("xyz", grid, device.max_grid, strict=True):
        if size > most:
            return f"{kernel.name}: grid.{axis} is {size}; at most {most}: use another axis or a loop"
    return (
        _registers(kernel, device, threads)
        or _bounds(kernel, threads)
        or _shared(kernel, device, shared_bytes)
        or (_cluster(kernel, device, grid, cluster) if cluster else None)
    )


def _registers(kernel: KernelLimits, device: DeviceLimits, threads: int) -> str | None:
    # Registers are given to whole warps in units of 256 (occupancy calculator, all devices since sm_30).
    per_warp = -(-kernel.registers * WARP // 256) * 256
    needed = per_warp * -(-threads // WARP)
    if needed <= device.registers_per_block or not kernel.registers:
        return None
    most = device.registers_per_block // per_warp * WARP
    return (
        f"{kernel.name} needs {kernel.registers} x {threads} = {kernel.registers * threads} registers > "
        f"{device.registers_per_block}; use a block of at most {most} or __launch_bounds__"
    )


def _bounds(kernel: KernelLimits, threads: int) -> str | None:
    if threads <= kernel.max_threads:
        return None
    return f"{kernel.name} was compiled for blocks of at most {kernel.max_threads} threads (__launch_bounds__ or registers); the plan launches {threads}"


def _shared(kernel: KernelLimits, device: DeviceLimits, dynamic: int) -> str | None:
    total = kernel.static_shared_bytes + dynamic
    if total <= device.shared_bytes_optin:
        return None
    return (
        f"{kernel.name} asks for {dynamic} bytes of dynamic and {kernel.static_shared_bytes} of static shared memory "
        f"= {total} bytes; this device allows {device.shared_bytes_optin} a block"
    )


def _cluster(kernel: KernelLimits, device: DeviceLimits, grid: Axes, cluster: Axes) -> str | None:
    if not device.has_clusters:
        return f"{kernel.name}: this device has no thread block clusters (compute capability 9.0 and later)"
    for axis, blocks, size in zip("xyz", grid, cluster, strict=True):
        if blocks % size:
            return f"{kernel.name}: grid.{axis} is {blocks}, not a multiple of cluster.{axis} = {size}"
    return None


def refuse_cluster(kernel: KernelLimits, cluster: Axes, most: int) -> str | None:
    """Return why a cluster is too large, `None` when it fits; `most` is the driver's answer for this launch."""
    size = math.prod(cluster)
    if size <= most:
        return None
    shape = " x ".join(map(str, cluster))
    return (
        f"{kernel.name}: a cluster of {shape} = {size} blocks; this kernel can have at most {most} "
        f"({PORTABLE_CLUSTER} is portable), fewer with larger blocks or more shared memory"
    )


def refuse_cooperative(kernel: KernelLimits, device: DeviceLimits, *, grid: Axes, per_sm: int) -> str | None:
    """Return why a cooperative launch does not fit, `None` when all its blocks are resident at once.

    Args:
        kernel: For its name.
        device: For its multiprocessors.
        grid: Blocks.
        per_sm: Resident blocks per multiprocessor from the occupancy API.
    """
    blocks, most = math.prod(grid), per_sm * device.num_sms
    if blocks <= most:
        return None
    return (
        f"{kernel.name}: a cooperative launch of {blocks} blocks; {device.num_sms} multiprocessors x {per_sm} blocks "
        f"= {most} are resident at once; use a grid of min(..., num_sms * blocks_per_sm('{kernel.name}')) and a loop"
    )
