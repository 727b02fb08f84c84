"""CUDA arrays, whoever made them, and those that an export makes."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuda_harness.tools.export.exported.expressions import KernelError
from cuda_harness.tools.export.exported.plan import ITEM_SIZES

_ALIGNMENT = 16
"""Bytes of the widest access of one thread; the kernel was verified on buffers aligned at least so."""
_TYPE_NAMES = {
    "f2": "float16", "f4": "float32", "f8": "float64", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64",
    "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "b1": "bool",
}  # fmt: skip
_OTHER_NAMES = {"float8_e4m3fn": "float8_e4m3"}


_LEGACY_STREAM = 1
"""The default stream in the CUDA Array Interface and in DLPack, where 0 is not allowed."""
_DLPACK_CUDA = (2, 13)
"""DLPack's device types for CUDA memory and managed memory."""


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
    """What is known of a CUDA array, whoever made it; nothing is copied and no device is asked."""

    def __init__(self, name: str, array: Any) -> None:
        self.name, self.owner = name, array
        self.device_id: int | None = None
        self.stream: int | None = None
        if hasattr(array, "data_ptr") and hasattr(array, "is_contiguous"):
            self._from_torch(name, array)
        elif isinstance(getattr(array, "dtype", None), str) and hasattr(array, "buffer"):
            self._from_own(array)
        elif hasattr(array, "__cuda_array_interface__"):
            self._from_interface(name, array.__cuda_array_interface__)
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
        self.device_id, self.stream = getattr(array, "device_id", None), getattr(array, "stream", None)

    def _from_interface(self, name: str, interface: Mapping[str, Any]) -> None:
        if interface.get("mask") is not None:
            msg = f"{name!r} is a masked array, the kernel takes dense ones"
            raise KernelError(msg)
        self.pointer, self.shape = int(interface["data"][0] or 0), tuple(interface["shape"])
        kind = str(interface["typestr"])
        self.dtype = _TYPE_NAMES.get(kind[1:], kind) if kind[0] in "<|=" else kind
        strides = interface.get("strides")
        self.contiguous = strides is None or _dense(self.shape, strides, int(kind[2:]))
        self.stream = interface.get("stream")

    def _from_dlpack(self, name: str, array: Any) -> None:
        if int(array.__dlpack_device__()[0]) not in _DLPACK_CUDA:
            msg = f"{name!r} is on the host, the kernel takes a CUDA array"
            raise KernelError(msg)
        from cuda.core.utils import StridedMemoryView

        view = StridedMemoryView.from_dlpack(array, stream_ptr=_LEGACY_STREAM)
        self.stream = _LEGACY_STREAM  # the producer made this stream wait for the array
        self.owner = view
        self.pointer, self.shape = int(view.ptr), tuple(view.shape)
        kind = np.dtype(view.dtype).name if view.dtype is not None else "unknown"
        self.dtype = _OTHER_NAMES.get(kind, kind)
        size = np.dtype(view.dtype).itemsize if view.dtype is not None else 1
        self.contiguous = view.strides is None or _dense(self.shape, [s * size for s in view.strides], size)
        self.device_id = int(view.device_id)

    def device(self) -> int | None:
        """Return the number of its device, `None` when it has no memory; raises CudaError."""
        if self.device_id is None and self.pointer:
            from cuda.bindings import driver

            kind = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
            doing = f"asking for the device of {self.name!r}"
            checked(driver.cuInit(0), doing)
            self.device_id = int(checked(driver.cuPointerGetAttribute(kind, self.pointer), doing))
        return self.device_id

    def check(self, dtype: str) -> None:
        """Check what a kernel relies on; raises KernelError with what to do."""
        name = self.name
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

    def __init__(
        self, buffer: Any, shape: tuple[int, ...], dtype: str, *, stream: int = 0, device_id: int | None = None
    ) -> None:  # fmt: skip
        """Take a buffer of cuda.core that holds the array; `stream` is the one on which it is written."""
        self.buffer, self.shape, self.dtype = buffer, shape, dtype
        self.stream = stream or _LEGACY_STREAM
        self.device_id = device_id

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        code = next((c for c, n in _TYPE_NAMES.items() if n == self.dtype), f"V{ITEM_SIZES[self.dtype]}")
        return {
            "shape": self.shape, "typestr": ("|" if code[-1] == "1" else "<") + code, "data": (int(self.buffer.handle), False),
            "version": 3, "strides": None, "stream": self.stream,
        }  # fmt: skip

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> "np.ndarray[Any, Any]":
        if copy is False:
            msg = "an array on a GPU comes to the host as a copy"
            raise ValueError(msg)
        host = self.to_numpy()
        return host if dtype is None else host.astype(dtype)

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
            if self.stream != _LEGACY_STREAM:  # the copy waits for that one by itself
                checked(driver.cuStreamSynchronize(driver.CUstream(self.stream)), "waiting for a result")
            checked(
                driver.cuMemcpyDtoH(host.ctypes.data, int(self.buffer.handle), host.nbytes),
                "copying a result",
            )
        return host
