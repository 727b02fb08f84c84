"""A plan's operations on one stream of a CUDA device, through cuda.core and the driver."""

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuda_harness.tools.export.exported.arrays import checked
from cuda_harness.tools.export.exported.expressions import KernelError
from cuda_harness.tools.export.exported.plan import ITEM_SIZES


class StreamDevice:
    """Runs a plan's operations on one stream."""

    def __init__(self, code: Any, device: Any, stream: Any) -> None:
        from cuda.bindings import driver

        self.driver, self.code, self.device, self.stream = driver, code, device, stream
        self.num_sms = int(device.properties.multiprocessor_count)
        self.raw = driver.CUstream(int(stream.handle))

    def kernel(self, name: str) -> Any:
        return self.code.get_kernel(name)

    def launch(self, kernel: str, config: Mapping[str, Any], args: Sequence[Any]) -> None:
        from cuda.core import LaunchConfig, launch

        entry = self.kernel(kernel)
        self._allow_shared(kernel, entry, config["shared"])
        if any(isinstance(a, bytes) for a in args):
            self._launch_raw(kernel, entry, config, args)
            return
        grid, cluster = config["grid"], config["cluster"]
        if cluster:  # cuda.core counts clusters
            grid = tuple(g // c for g, c in zip(grid, cluster, strict=True))
        made = LaunchConfig(
            grid=grid, block=config["block"], shmem_size=config["shared"], cluster=cluster,
            is_cooperative=config["cooperative"],
        )  # fmt: skip
        launch(self.stream, made, entry, *args)

    def _launch_raw(self, name: str, entry: Any, config: Mapping[str, Any], args: Sequence[Any]) -> None:
        """Launch through the driver: cuda.core takes no argument of 128 bytes, which a tensor map is."""
        d = self.driver
        raw = [
            a if isinstance(a, bytes) else a.to_bytes(8, "little") if isinstance(a, int) else a.tobytes()
            for a in args
        ]
        kept = [ctypes.create_string_buffer(r, len(r)) for r in raw]
        pointers = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(k) for k in kept))
        order = d.CUlaunchConfig()
        order.gridDimX, order.gridDimY, order.gridDimZ = config["grid"]
        order.blockDimX, order.blockDimY, order.blockDimZ = config["block"]
        order.sharedMemBytes, order.hStream = config["shared"], self.raw
        attributes = []
        if config["cooperative"]:
            attribute = d.CUlaunchAttribute()
            attribute.id = d.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
            attribute.value.cooperative = 1
            attributes.append(attribute)
        if config["cluster"]:
            attribute = d.CUlaunchAttribute()
            attribute.id = d.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            side = attribute.value.clusterDim
            side.x, side.y, side.z = config["cluster"]
            attributes.append(attribute)
        order.attrs, order.numAttrs = attributes, len(attributes)
        function = checked(d.cuKernelGetFunction(d.CUkernel(int(entry.handle))), f"finding {name}")
        checked(d.cuLaunchKernelEx(order, function, ctypes.addressof(pointers), 0), f"launching {name}")

    def _allow_shared(self, name: str, entry: Any, size: int) -> None:
        if size > 0:  # beside static shared memory even a little can pass the default limit
            setting = self.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            handle = self.driver.CUkernel(int(entry.handle))
            device = self.driver.CUdevice(self.device.device_id)
            checked(
                self.driver.cuKernelSetAttribute(setting, size, handle, device),
                f"raising the shared memory of {name}",
            )

    def fill(self, address: int, pattern: bytes, count: int) -> None:
        d = self.driver
        if len(set(pattern)) == 1:
            result = d.cuMemsetD8Async(address, pattern[0], count * len(pattern), self.raw)
        elif len(pattern) == 2:
            result = d.cuMemsetD16Async(address, int.from_bytes(pattern, "little"), count, self.raw)
        elif len(pattern) == 4:
            result = d.cuMemsetD32Async(address, int.from_bytes(pattern, "little"), count, self.raw)
        else:  # the driver sets no 8-byte words: the lower halves, then the upper ones
            low, high = int.from_bytes(pattern[:4], "little"), int.from_bytes(pattern[4:], "little")
            checked(d.cuMemsetD2D32Async(address, 8, low, 1, count, self.raw), "filling a buffer")
            result = d.cuMemsetD2D32Async(address + 4, 8, high, 1, count, self.raw)
        checked(result, "filling a buffer")

    def copy(self, to: int, source: int, size: int) -> None:
        checked(self.driver.cuMemcpyDtoDAsync(to, source, size, self.raw), "copying a buffer")

    def symbol(self, name: str, source: int, size: int) -> None:
        address, room = checked(
            self.driver.cuLibraryGetGlobal(self.code.handle, name.encode()), f"finding the symbol {name!r}"
        )
        if size > room:
            msg = f"symbol {name!r} holds {room} bytes, {size} were given"
            raise KernelError(msg)
        self.copy(int(address), source, size)

    def is_set(self, address: int, size: int) -> bool:
        host = np.zeros(size, dtype=np.uint8)
        checked(self.driver.cuStreamSynchronize(self.raw), "running the kernels")
        checked(self.driver.cuMemcpyDtoH(host.ctypes.data, address, size), "reading a flag")
        return bool(host.any())

    def blocks_per_sm(self, kernel: str, threads: int, shared: int) -> int:
        entry = self.kernel(kernel)
        self._allow_shared(kernel, entry, shared)
        return int(entry.occupancy.max_active_blocks_per_multiprocessor(threads, shared))

    def tensor_map(self, address: int, spec: Mapping[str, Any]) -> bytes:
        d, item = self.driver, ITEM_SIZES[spec["dtype"]]
        words = {"float16": "FLOAT16", "bfloat16": "BFLOAT16", "float32": "FLOAT32", "float64": "FLOAT64",
                 "int32": "INT32", "int64": "INT64"}  # fmt: skip
        kind = words.get(spec["dtype"], f"UINT{8 * item}")
        sizes = list(reversed(spec["shape"]))
        strides, step = [], item
        for size in sizes[:-1]:
            step *= size
            strides.append(step)
        l2 = "NONE" if spec["l2"] == "none" else f"L2_{spec['l2']}"
        swizzle = "NONE" if spec["swizzle"] == "none" else spec["swizzle"]
        oob = "NAN_REQUEST_ZERO_FMA" if spec["oob"] == "nan" else "NONE"
        made = d.cuTensorMapEncodeTiled(
            getattr(d.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{kind}"), len(sizes), address,
            [d.cuuint64_t(n) for n in sizes], [d.cuuint64_t(n) for n in strides],
            [d.cuuint32_t(n) for n in reversed(spec["box"])], [d.cuuint32_t(1)] * len(sizes),
            d.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            getattr(d.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
            getattr(d.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_{l2}"),
            getattr(d.CUtensorMapFloatOOBfill, f"CU_TENSOR_MAP_FLOAT_OOB_FILL_{oob}"),
        )  # fmt: skip
        found = checked(made, f"making the tensor map of {spec['tensor']!r}")
        return ctypes.string_at(int(found.getPtr()), 128)
