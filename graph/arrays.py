"""Arrays of other libraries as NumPy arrays and back: DLPack, `__cuda_array_interface__`, and what neither can say.

A kernel runs in a child process of an executor, so a CUDA array is copied to the host and its result back to the
device it came from; the kernel itself runs on that GPU.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.errors import ConfigError

Array = NDArray[Any]

_HOST_KINDS = frozenset({1, 3, 13})
"""DLPack device types whose memory the host reads: CPU, CUDA pinned, CUDA managed (dlpack.h, DLDeviceType)."""
_CUDA = 2
_NARROW = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""Element types that NumPy has only through ml_dtypes -> the type of the same width that carries their bits."""


@dataclass(frozen=True)
class Given:
    """One argument, read."""

    array: Array
    """Its elements on the host, in its own dtype."""
    device: str
    """`cpu`, or `cuda:N` when it lies on a GPU."""
    back: Callable[[Array], Any]
    """Makes an array of the caller's library, on the caller's device."""


def read_array(name: str, value: Any) -> Given:  # noqa: ANN401 - any array
    """Return `value` as a NumPy array with the way back; nothing is changed and no dtype converted.

    Raises:
        ConfigError: If it tracks gradients, is no dense array, or lies on a device that is not read here.
    """
    if isinstance(value, np.ndarray):
        return Given(value, "cpu", _same)
    if getattr(value, "requires_grad", False):
        msg = f"{name!r} requires a gradient, and this kernel has no backward pass"
        raise ConfigError(msg, remedy="pass x.detach()")
    layout = str(getattr(value, "layout", ""))
    if layout.startswith("torch.") and layout != "torch.strided":
        msg = f"{name!r} has layout {layout}, the kernel takes dense arrays"
        raise ConfigError(msg, remedy="pass x.to_dense()")
    if type(value).__module__.split(".")[0] == "torch":
        return _from_torch(name, value)
    if hasattr(value, "__cuda_array_interface__"):
        return _from_cuda(name, value)
    if hasattr(value, "__dlpack__"):
        return _from_dlpack(name, value)
    try:
        return Given(np.asarray(value), "cpu", _same)
    except (ValueError, TypeError) as exc:
        msg = f"{name!r} is no array: {exc}"
        raise ConfigError(msg, remedy="pass a NumPy array, or one that speaks DLPack") from exc


def one_device(given: dict[str, Given]) -> str:
    """Return the device all arguments share; raises ConfigError naming two that differ."""
    first = next(iter(given), None)
    if first is None:
        return "cpu"
    for name, argument in given.items():
        if argument.device != given[first].device:
            msg = f"{first!r} is on {given[first].device}, {name!r} is on {argument.device}"
            raise ConfigError(msg, remedy="bring all inputs to one device")
    return given[first].device


def _same(array: Array) -> Array:
    return array


def _from_dlpack(name: str, value: Any) -> Given:  # noqa: ANN401 - any producer
    kind, index = (int(part) for part in value.__dlpack_device__())
    if kind == _CUDA:
        msg = f"{name!r} is on cuda:{index} and has no __cuda_array_interface__"
        raise ConfigError(msg, remedy="pass a torch or CuPy array, or copy it to the host")
    if kind not in _HOST_KINDS:
        msg = f"{name!r} is on a device of DLPack type {kind}, which is neither the host nor a CUDA device"
        raise ConfigError(msg, remedy="copy it to the host")
    try:
        array = np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as exc:
        msg = f"{name!r} does not give its memory: {exc}"
        raise ConfigError(msg, remedy="pass a dense array of a type that NumPy knows") from exc
    return Given(array, "cpu", _maker(value))


def _maker(value: Any) -> Callable[[Array], Any]:  # noqa: ANN401 - any producer
    """Return `from_dlpack` of the library that `value` comes from; NumPy arrays where it has none."""
    library = sys.modules.get(type(value).__module__.split(".", maxsplit=1)[0])
    make = getattr(library, "from_dlpack", None)
    return make if callable(make) else _same


def _from_torch(name: str, value: Any) -> Given:  # noqa: ANN401 - a torch tensor; torch is never imported here
    torch = sys.modules["torch"]
    kind = value.device.type
    if kind not in {"cpu", "cuda"}:
        msg = f"{name!r} is on device {kind!r}, the kernel runs on the CPU or a CUDA device"
        raise ConfigError(msg, remedy="pass x.cpu() or x.cuda()")
    host = value.cpu().contiguous().resolve_conj().resolve_neg()
    short = str(value.dtype).removeprefix("torch.")
    if short in _NARROW:
        import ml_dtypes

        array = host.view(getattr(torch, _NARROW[short])).numpy().view(getattr(ml_dtypes, short))
    else:
        try:
            array = np.from_dlpack(host)
        except (BufferError, RuntimeError, TypeError) as exc:
            msg = f"{name!r} has dtype {value.dtype}, which no kernel takes"
            raise ConfigError(msg, remedy="convert it with x.to(...)") from exc
    device = "cpu" if kind == "cpu" else f"cuda:{value.device.index or 0}"

    def back(result: Array) -> Any:  # noqa: ANN401 - a torch tensor
        dense, short = np.ascontiguousarray(result), str(result.dtype)
        if short not in _NARROW:
            return torch.from_numpy(dense).to(value.device)
        return torch.from_numpy(dense.view(_NARROW[short])).view(getattr(torch, short)).to(value.device)

    return Given(array, device, back)


def _from_cuda(name: str, value: Any) -> Given:  # noqa: ANN401 - CuPy, Numba and the like
    """Copy a CUDA array to the host through the driver (CUDA Array Interface, version 3)."""
    described = value.__cuda_array_interface__
    shape, dtype = tuple(described["shape"]), np.dtype(described["typestr"])
    if described.get("mask") is not None:
        msg = f"{name!r} is a masked array, the kernel takes dense ones"
        raise ConfigError(msg, remedy="fill the masked elements first")
    strides = described.get("strides")
    if strides is not None and tuple(strides) != np.empty(shape, dtype).strides:
        msg = f"{name!r} has strides {tuple(strides)}, the kernel takes dense row-major arrays"
        raise ConfigError(msg, remedy="pass a contiguous copy, for example cupy.ascontiguousarray(x)")
    host, ordinal = _copy_to_host(name, int(described["data"][0]), shape, dtype)
    library = sys.modules.get(type(value).__module__.split(".", maxsplit=1)[0])
    to_device = getattr(library, "asarray", None) if getattr(library, "__name__", "") == "cupy" else None
    return Given(host, f"cuda:{ordinal}", to_device if callable(to_device) else _same)


def _copy_to_host(name: str, address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[Array, int]:
    """Return the elements at a device address, after all work queued on its device, and the device's ordinal."""
    host = np.empty(shape, dtype)
    if host.nbytes == 0 or address == 0:
        return host, 0
    from cuda.bindings import driver
    from cuda.core import Device

    def asked(call: tuple[Any, ...]) -> Any:  # noqa: ANN401 - the driver's own results
        if call[0] != driver.CUresult.CUDA_SUCCESS:
            msg = f"{name!r} cannot be read from the GPU: {call[0].name}"
            raise ConfigError(msg, remedy="copy it to the host and pass that")
        return call[1] if len(call) > 1 else None

    try:
        before = asked(driver.cuCtxGetCurrent())
    except RuntimeError as exc:  # cuda.pathfinder: no driver library
        msg = f"{name!r} says that it is on a GPU, and there is no CUDA driver here"
        raise ConfigError(msg, remedy="pass an array on the host") from exc
    ordinal = int(
        asked(
            driver.cuPointerGetAttribute(
                driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address
            )
        )
    )
    try:
        Device(ordinal).set_current()
        asked(driver.cuCtxSynchronize())
        asked(driver.cuMemcpyDtoH(host.ctypes.data, address, host.nbytes))
    finally:
        asked(driver.cuCtxSetCurrent(before))
    return host, ordinal
