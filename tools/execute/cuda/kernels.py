"""Loaded kernels in the GPU child: modules, attributes, launch configurations, arguments by value."""

import ctypes
import hashlib
from collections import OrderedDict
from typing import Any

import numpy as np

from cuda_harness.tools.execute.cuda import limits
from cuda_harness.tools.execute.cuda.faults import check
from cuda_harness.tools.execute.dtypes import np_dtype

_MODULES = 8
"""Loaded cubins that a child keeps."""
_OPT_IN_ABOVE = 48 * 1024
"""Static plus dynamic shared memory that needs no opt-in on any device."""


class Modules:
    """Loaded cubins by hash, so that the second job of a candidate loads nothing."""

    def __init__(self) -> None:
        self._loaded: OrderedDict[str, Any] = OrderedDict()

    def load(self, cubin: bytes) -> Any:  # noqa: ANN401 - cuda.core ObjectCode
        """Return the object code of a cubin."""
        from cuda.core import ObjectCode

        key = hashlib.sha256(cubin).hexdigest()
        if key not in self._loaded:
            self._loaded[key] = ObjectCode.from_cubin(cubin)
            while len(self._loaded) > _MODULES:
                self._loaded.popitem(last=False)
        self._loaded.move_to_end(key)
        return self._loaded[key]


def ordered_stream(device: Any) -> Any:  # noqa: ANN401 - cuda.core Device and Stream
    """Return a stream that waits for copies and fills on the default stream, as they do for it.

    Copies between device buffers and fills return to the host before they are done.
    """
    from cuda.core import StreamOptions

    return device.create_stream(options=StreamOptions(nonblocking=False))


def config_of(op: dict[str, Any]) -> Any:  # noqa: ANN401 - cuda.core LaunchConfig
    """Return the launch configuration of an operation; cuda.core counts a grid in clusters where there are any."""
    from cuda.core import LaunchConfig

    grid, cluster = tuple(op["grid"]), tuple(op["cluster"]) if op["cluster"] else None
    if cluster:
        grid = tuple(g // c for g, c in zip(grid, cluster, strict=True))
    return LaunchConfig(
        grid=grid, block=tuple(op["block"]), shmem_size=op["shared"], cluster=cluster, is_cooperative=op["cooperative"]
    )  # fmt: skip


def allow_shared(driver: Any, kernel: Any, facts: limits.KernelLimits, dynamic: int, device_id: int) -> None:  # noqa: ANN401
    """Opt in to more than 48 KiB of shared memory where a launch needs it."""
    if facts.static_shared_bytes + dynamic > _OPT_IN_ABOVE:
        allow(driver, kernel, "MAX_DYNAMIC_SHARED_SIZE_BYTES", dynamic, device_id)


def allow(driver: Any, kernel: Any, name: str, value: int, device_id: int) -> None:  # noqa: ANN401 - driver objects
    """Set an attribute of a kernel on a device."""
    setting = getattr(driver.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
    handle, device = driver.CUkernel(int(kernel.handle)), driver.CUdevice(device_id)
    check(driver.cuKernelSetAttribute(setting, value, handle, device), f"setting {name}")


def attribute(kernel: Any, name: str) -> int:  # noqa: ANN401 - cuda.core Kernel
    """Return an attribute of a kernel; cuda.core made these properties of methods between releases."""
    found = getattr(kernel.attributes, name)
    return int(found() if callable(found) else found)


def kernel_limits(name: str, kernel: Any) -> limits.KernelLimits:  # noqa: ANN401 - cuda.core Kernel
    """Return what a loaded kernel takes."""
    return limits.KernelLimits(
        name, attribute(kernel, "num_regs"), attribute(kernel, "shared_size_bytes"), attribute(kernel, "max_threads_per_block")
    )  # fmt: skip


def device_limits(device: Any) -> limits.DeviceLimits:  # noqa: ANN401 - cuda.core Device
    """Return what one block may take on this device."""
    p = device.properties
    return limits.DeviceLimits(
        max_threads_per_block=int(p.max_threads_per_block),
        max_block=(int(p.max_block_dim_x), int(p.max_block_dim_y), int(p.max_block_dim_z)),
        max_grid=(int(p.max_grid_dim_x), int(p.max_grid_dim_y), int(p.max_grid_dim_z)),
        shared_bytes_optin=int(p.max_shared_memory_per_block_optin), registers_per_block=int(p.max_registers_per_block),
        num_sms=int(p.multiprocessor_count), has_clusters=int(device.compute_capability[0]) >= 9,
    )  # fmt: skip


def typed_value(value: Any, dtype: str) -> Any:  # noqa: ANN401 - a ctypes or NumPy scalar
    """Return a by-value argument in exactly its width; half types travel as their 16 bits."""
    number = float.fromhex(value) if isinstance(value, str) else value
    scalar = np.asarray(number).astype(np_dtype(dtype))
    if dtype == "bool":
        return ctypes.c_bool(bool(number))
    if dtype in {"float16", "bfloat16"}:
        return ctypes.c_uint16(int(scalar.view(np.uint16)))
    if dtype.startswith("float8"):
        return ctypes.c_uint8(int(scalar.view(np.uint8)))
    return scalar[()]
