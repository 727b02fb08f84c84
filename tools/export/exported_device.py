"""A kernel on a CUDA device through cuda.core: this text is part of every Python export, after `exported_plan`."""

import base64
import ctypes
import hashlib
import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cuda_harness.tools.export.exported_plan import ITEM_SIZES, KernelError, Plan

# ---- cut here: above is only what the tests and this package need ----
_ALIGNMENT = 16
"""Bytes of the widest access of one thread; the kernel was verified on buffers aligned at least so."""
_TYPE_NAMES = {
    "f2": "float16", "f4": "float32", "f8": "float64", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64",
    "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "b1": "bool",
}  # fmt: skip
_OTHER_NAMES = {"float8_e4m3fn": "float8_e4m3"}


class CudaError(RuntimeError):
    """The driver refused something; its own name for the error is in the text."""


def checked(result: Any, doing: str) -> Any:
    """Return the values of a driver call; raises CudaError."""
    code, *values = result if isinstance(result, tuple) else (result,)
    if int(code):
        msg = f"{getattr(code, 'name', code)} while {doing}"
        raise CudaError(msg)
    return values[0] if len(values) == 1 else values


class ArrayView:
    """What is known of a CUDA array, whoever made it."""

    def __init__(self, name: str, array: Any) -> None:
        self.owner = array
        self.device_id: int | None = None
        self.stream: int | None = None
        if hasattr(array, "data_ptr") and hasattr(array, "is_contiguous"):
            self._from_torch(name, array)
        elif isinstance(getattr(array, "dtype", None), str) and hasattr(array, "buffer"):
            self._from_own(array)
        elif hasattr(array, "__cuda_array_interface__"):
            self._from_interface(array.__cuda_array_interface__)
        elif hasattr(array, "__dlpack__"):
            self._from_dlpack(name, array)
        else:
            msg = f"{name!r} is a {type(array).__name__}, the kernel takes a CUDA array"
            raise KernelError(msg)

    def _from_torch(self, name: str, tensor: Any) -> None:
        if not tensor.is_cuda:
            msg = f"{name!r} is on {tensor.device}, the kernel takes a CUDA tensor"
            raise KernelError(msg)
        if tensor.requires_grad:
            msg = f"{name!r} requires a gradient, and this kernel has no backward pass: pass {name}.detach()"
            raise KernelError(msg)
        self.pointer, self.shape = int(tensor.data_ptr()), tuple(tensor.shape)
        kind = str(tensor.dtype).removeprefix("torch.")
        self.dtype = _OTHER_NAMES.get(kind, kind)
        self.contiguous = bool(tensor.is_contiguous())
        self.device_id = int(tensor.device.index or 0)

    def _from_own(self, array: Any) -> None:
        """Read a `DeviceArray`, also one of another such module: it can name types that no interface spells."""
        self.pointer, self.shape, self.dtype = int(array.buffer.handle), tuple(array.shape), str(array.dtype)
        self.contiguous = True

    def _from_interface(self, interface: Mapping[str, Any]) -> None:
        self.pointer, self.shape = int(interface["data"][0] or 0), tuple(interface["shape"])
        kind = str(interface["typestr"])
        self.dtype = _TYPE_NAMES.get(kind[1:], kind)
        strides = interface.get("strides")
        self.contiguous = strides is None or _dense(self.shape, strides, int(kind[2:]))
        self.stream = interface.get("stream")

    def _from_dlpack(self, name: str, array: Any) -> None:
        from cuda.core.utils import StridedMemoryView

        view = StridedMemoryView.from_dlpack(array, stream_ptr=-1)
        if not view.is_device_accessible:
            msg = f"{name!r} is on the host, the kernel takes a CUDA array"
            raise KernelError(msg)
        self.owner = view
        self.pointer, self.shape = int(view.ptr), tuple(view.shape)
        kind = np.dtype(view.dtype).name if view.dtype is not None else "unknown"
        self.dtype = _OTHER_NAMES.get(kind, kind)
        size = np.dtype(view.dtype).itemsize if view.dtype is not None else 1
        self.contiguous = view.strides is None or _dense(self.shape, [s * size for s in view.strides], size)
        self.device_id = int(view.device_id)

    def check(self, name: str, dtype: str) -> None:
        """Check what a kernel relies on; raises KernelError with what to do."""
        if self.dtype != dtype:
            msg = f"{name!r} has dtype {self.dtype}, the kernel takes {dtype}"
            raise KernelError(msg)
        if not self.contiguous:
            msg = f"{name!r} is not contiguous in row-major order: make a contiguous copy"
            raise KernelError(msg)
        if self.pointer % _ALIGNMENT and np.prod(self.shape, dtype=np.int64):
            msg = f"{name!r} starts at an address that is no multiple of {_ALIGNMENT}: make a copy"
            raise KernelError(msg)


def _dense(shape: Sequence[int], strides: Sequence[int], item: int) -> bool:
    expected = item
    for size, stride in zip(reversed(shape), reversed(list(strides)), strict=True):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


class DeviceArray:
    """An array that this module allocated; any library takes it by `__cuda_array_interface__`."""

    def __init__(self, buffer: Any, shape: tuple[int, ...], dtype: str) -> None:
        self.buffer, self.shape, self.dtype = buffer, shape, dtype

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        code = next((c for c, n in _TYPE_NAMES.items() if n == self.dtype), f"V{ITEM_SIZES[self.dtype]}")
        return {
            "shape": self.shape, "typestr": ("|" if code[-1] == "1" else "<") + code, "data": (int(self.buffer.handle), False),
            "version": 3, "strides": None, "stream": None,
        }  # fmt: skip

    def to_numpy(self) -> "np.ndarray[Any, Any]":
        """Return a copy on the host; bfloat16 and fp8 come as ml_dtypes."""
        from cuda.bindings import driver

        if self.dtype in {"bfloat16", "float8_e4m3", "float8_e5m2"}:
            import ml_dtypes

            kind = np.dtype(getattr(ml_dtypes, {"float8_e4m3": "float8_e4m3fn"}.get(self.dtype, self.dtype)))
        else:
            kind = np.dtype(self.dtype)
        host = np.empty(self.shape, dtype=kind)
        if host.nbytes:
            checked(
                driver.cuMemcpyDtoH(host.ctypes.data, int(self.buffer.handle), host.nbytes),
                "copying a result",
            )
        return host


class _Device:
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


class CudaKernel:
    """One kernel with its plan, callable on CUDA arrays."""

    def __init__(
        self,
        document: Mapping[str, Any],
        prelude: str,
        source: str,
        cubins: Mapping[str, bytes] | None = None,
    ) -> None:
        """Keep the parts; nothing touches CUDA before the first call.

        Args:
            document: IR and plan as data.
            prelude: Text before every kernel.
            source: The kernel, includes resolved.
            cubins: Compiled code by `key(arch, macros)`; what is not there is compiled by NVRTC when it is needed.
        """
        self.plan = Plan(document)
        self._prelude, self._source = prelude, source
        self._cubins = dict(cubins or {})
        self._loaded: dict[tuple[str, int], Any] = {}
        self._lock = threading.Lock()

    @staticmethod
    def key(arch: str, macros: Mapping[str, int]) -> str:
        """Return the name of compiled code: architecture and macros."""
        return hashlib.sha256(json.dumps([arch, sorted(macros.items())]).encode()).hexdigest()

    def __call__(self, *arrays: Any, out: Any = None, stream: Any = None, **scalars: Any) -> Any:
        """Run the kernel on CUDA arrays, inputs in IR order, and return its output, a dict when there are several.

        Torch tensors give torch tensors on torch's current stream; other arrays give `DeviceArray`s. Inputs are
        never changed: an array that the kernel updates in place is copied first.

        Args:
            arrays: The inputs.
            out: Array, or dict of arrays by name, that receives the outputs; `None`: new ones.
            stream: A stream, or its handle; `None`: torch's current one, else the default stream.
            scalars: By name; those left out take the IR's value. A size that no shape tells is given the same way.

        Raises:
            KernelError: If an array, a size or a scalar does not fit the kernel.
            CudaError: If the driver refuses something.
        """
        inputs = self.plan.inputs
        if len(arrays) != len(inputs):
            listed = ", ".join(f"{t['name']}: {t['dtype']}{t['shape']}" for t in inputs)
            msg = f"{len(inputs)} arrays are needed ({listed}), {len(arrays)} were given"
            raise KernelError(msg)
        views = {t["name"]: ArrayView(t["name"], a) for t, a in zip(inputs, arrays, strict=True)}
        for tensor in inputs:
            views[tensor["name"]].check(tensor["name"], tensor["dtype"])
        sizes = {d["name"] for d in self.plan.document["dims"]}
        dims = self.plan.infer_dims(
            {n: v.shape for n, v in views.items()}, {n: int(v) for n, v in scalars.items() if n in sizes}
        )
        values = self.plan.scalars({n: v for n, v in scalars.items() if n not in sizes})
        first = arrays[0] if arrays else None
        torch = sys.modules.get("torch") if hasattr(first, "data_ptr") else None
        device_id = next((v.device_id for v in views.values() if v.device_id is not None), 0)
        handle = _stream_handle(stream, torch, device_id)
        made = self._outputs(out, dims, torch, first, device_id, handle)
        results = {n: ArrayView(n, a) for n, a in made.items()}
        for tensor in self.plan.outputs:
            name = tensor["name"]
            results[name].check(name, tensor["dtype"])
            if results[name].shape != self.plan.shape(name, dims):
                msg = (
                    f"out {name!r} has shape {results[name].shape}, it must be {self.plan.shape(name, dims)}"
                )
                raise KernelError(msg)
        for view in views.values():
            _wait_for(view.stream, handle)
        addresses = {n: v.pointer for n, v in {**views, **results}.items()}
        copies = {n: v.pointer for n, v in views.items() if n in results}
        keep: list[Any] = []

        def scratch(_name: str, size: int) -> int:
            if torch is not None and first is not None:
                kept = first.new_empty(max(size, 256), dtype=torch.uint8)
                keep.append(kept)
                return int(kept.data_ptr())
            kept = _allocate(device_id, max(size, 256), handle)
            keep.append(kept)
            return int(kept.handle)

        self.run(addresses, dims, values, stream=handle, device_id=device_id, scratch=scratch, initial=copies)
        if torch is not None and handle != int(torch.cuda.current_stream(device_id).cuda_stream):
            for kept in keep:  # torch must not hand this memory out again before that stream is done
                kept.record_stream(torch.cuda.ExternalStream(handle, device=device_id))
        return next(iter(made.values())) if len(made) == 1 else made

    def run(
        self,
        addresses: Mapping[str, int],
        dims: Mapping[str, int],
        scalars: Mapping[str, Any],
        *,
        stream: int,
        device_id: int,
        scratch: Callable[[str, int], int],
        initial: Mapping[str, int] | None = None,
    ) -> None:
        """Run the plan on device addresses that the caller answers for; returns when all is asked for, not done.

        Args:
            addresses: Of every tensor.
            dims: Every size.
            scalars: Every scalar.
            stream: Handle of the stream.
            device_id: Number of the device.
            scratch: Returns the address of a buffer, given its name and its bytes; it lives until the stream is done.
            initial: Addresses whose contents go first into the tensors of these names.
        """
        from cuda.core import Device, Stream

        device = Device(device_id)
        device.set_current()
        code = self._code(device, self.plan.macros(dims))
        runner = _Device(code, device, Stream.from_handle(stream) if stream else device.default_stream)
        for name, source in (initial or {}).items():
            size = (
                int(np.prod(self.plan.shape(name, dims), dtype=np.int64)) * ITEM_SIZES[self.plan.dtypes[name]]
            )
            if size and source != addresses[name]:
                runner.copy(addresses[name], source, size)
        self.plan.run(runner, dims, scalars, addresses, scratch)

    def _outputs(
        self, out: Any, dims: Mapping[str, int], torch: Any, first: Any, device_id: int, stream: int
    ) -> dict[str, Any]:
        outputs = self.plan.outputs
        if out is not None:
            given = out if isinstance(out, Mapping) else {outputs[0]["name"]: out}
            if set(given) != {t["name"] for t in outputs}:
                msg = f"out names {sorted(given)}, the outputs are {[t['name'] for t in outputs]}"
                raise KernelError(msg)
            return dict(given)
        made: dict[str, Any] = {}
        for t in outputs:
            shape = self.plan.shape(t["name"], dims)
            if torch is not None:
                kind = {"float8_e4m3": "float8_e4m3fn"}.get(t["dtype"], t["dtype"])
                made[t["name"]] = first.new_empty(shape, dtype=getattr(torch, kind))
            else:
                size = int(np.prod(shape, dtype=np.int64)) * ITEM_SIZES[t["dtype"]]
                made[t["name"]] = DeviceArray(_allocate(device_id, max(size, 256), stream), shape, t["dtype"])
        return made

    def _code(self, device: Any, macros: Mapping[str, int]) -> Any:
        major, minor = device.compute_capability
        arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
        key = self.key(arch, macros)
        with self._lock:
            if (key, device.device_id) not in self._loaded:
                from cuda.core import ObjectCode

                cubin = self._cubins.get(key)
                self._loaded[key, device.device_id] = (
                    ObjectCode.from_cubin(cubin) if cubin is not None else self._compiled(arch, macros)
                )
            return self._loaded[key, device.device_id]

    def _compiled(self, arch: str, macros: Mapping[str, int]) -> Any:
        """Compile the source for another device or other sizes than the shipped code."""
        from cuda.core import Program, ProgramOptions
        from cuda.pathfinder import find_nvidia_header_directory

        folders = [f for f in map(find_nvidia_header_directory, ("cudart", "cccl")) if f]
        wide = {n: "" if -(2**31) <= v < 2**31 else "LL" for n, v in macros.items()}
        defines = "".join(f"#define {n} {macros[n]}{wide[n]}\n" for n in sorted(macros))
        chosen = self.plan.document["compile"]
        options = ProgramOptions(
            name="kernel.cu", arch=arch, std="c++17", include_path=folders,
            use_fast_math=chosen["fast_math"] or None, max_register_count=chosen["max_registers"],
        )  # fmt: skip
        text = f'{self._prelude}\n{defines}#line 1 "kernel.cu"\n{self._source}'
        return Program(text, "c++", options).compile("cubin")


def _allocate(device_id: int, size: int, stream: int) -> Any:
    from cuda.core import Device, Stream

    device = Device(device_id)
    device.set_current()
    return device.allocate(size, stream=Stream.from_handle(stream) if stream else device.default_stream)


def _stream_handle(stream: Any, torch: Any, device_id: int) -> int:
    if stream is None:
        return int(torch.cuda.current_stream(device_id).cuda_stream) if torch is not None else 0
    for name in ("cuda_stream", "handle", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    return int(stream)


def _wait_for(stream: Any, handle: int) -> None:
    """Wait for the stream on which an array is still being written; 1 and 2 are the two default streams."""
    if stream is None or int(stream) == handle:
        return
    from cuda.bindings import driver

    checked(driver.cuStreamSynchronize(driver.CUstream(int(stream))), "waiting for an input")


def decoded(text: str) -> bytes:
    """Return bytes that travel as text in a module."""
    return base64.b85decode(text)
