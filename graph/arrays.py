"""Arrays of other libraries, read and given back: DLPack, `__cuda_array_interface__`, and what neither can say.

Host arrays become NumPy arrays, since a kernel runs in a child process of an executor; CUDA arrays stay where they are.
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
_ALIGNMENT = 16
"""Bytes of the widest access of one thread."""
_NARROW = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""Element types that NumPy has only through ml_dtypes -> the type of the same width that carries their bits."""


@dataclass(frozen=True)
class Given:
    """One argument, read."""

    array: Any
    """NumPy array with its elements; on a GPU the dense CUDA array itself."""
    device: str
    """`cpu`, or `cuda:N` when it lies on a GPU."""
    dtype: str
    """Its element type, by the IR's name where the IR has it."""
    shape: tuple[int, ...]
    back: Callable[[Any], Any]
    """Makes an array of the caller's library, on the caller's device, of a result there."""


def on_host(array: Array, back: Callable[[Any], Any]) -> Given:
    """Return what is given by a NumPy array."""
    kind = str(array.dtype)
    return Given(array, "cpu", {"float8_e4m3fn": "float8_e4m3"}.get(kind, kind), array.shape, back)


def read_array(name: str, value: Any) -> Given:  # noqa: ANN401 - any array
    """Return `value`, read, with the way back; nothing is changed and no dtype converted.

    Raises:
        ConfigError: If it tracks gradients, is no dense array, or lies on a device that is not read here.
    """
    if isinstance(value, np.ndarray):
        return on_host(value, _same)
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
        return on_host(np.asarray(value), _same)
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


def _same(array: Any) -> Any:  # noqa: ANN401 - whatever it is
    return array


def _from_dlpack(name: str, value: Any) -> Given:  # noqa: ANN401 - any producer
    kind, index = (int(part) for part in value.__dlpack_device__())
    if kind == _CUDA:
        return _on_gpu(name, value, index)
    if kind not in _HOST_KINDS:
        msg = f"{name!r} is on a device of DLPack type {kind}, which is neither the host nor a CUDA device"
        raise ConfigError(msg, remedy="copy it to the host")
    try:
        array = np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as exc:
        msg = f"{name!r} does not give its memory: {exc}"
        raise ConfigError(msg, remedy="pass a dense array of a type that NumPy knows") from exc
    return on_host(array, _maker(value))


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
    if kind == "cuda":
        dense = value.resolve_conj().resolve_neg().contiguous()
        return _on_gpu(name, dense if dense.data_ptr() % _ALIGNMENT == 0 else dense.clone())
    host = value.contiguous().resolve_conj().resolve_neg()
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

    def back(result: Array) -> Any:  # noqa: ANN401 - a torch tensor
        dense, short = np.ascontiguousarray(result), str(result.dtype)
        if short not in _NARROW:
            return torch.from_numpy(dense)
        return torch.from_numpy(dense.view(_NARROW[short])).view(getattr(torch, short))

    return on_host(array, back)


def _from_cuda(name: str, value: Any) -> Given:  # noqa: ANN401 - CuPy, Numba and the like
    library = type(value).__module__.split(".", maxsplit=1)[0]
    module: Any = sys.modules.get("numba.cuda" if library == "numba" else library)
    make = getattr(module, {"cupy": "asarray", "numba": "as_cuda_array"}.get(library, ""), None)
    if library == "cupy" and value.data.ptr % _ALIGNMENT:
        value = value.copy()
    return _on_gpu(name, value, back=make if callable(make) else _same)


def _on_gpu(name: str, value: Any, index: int | None = None, back: Callable[[Any], Any] = _same) -> Given:  # noqa: ANN401 - any CUDA array
    """Return a CUDA array as it is; `index` is its device's number where that is known.

    Raises:
        ConfigError: If it is masked or not dense, or its device does not tell its number.
    """
    from cuda_harness.tools.export.exported.arrays import ArrayView
    from cuda_harness.tools.export.exported.expressions import KernelError

    try:
        view = ArrayView(name, value)
        if not view.contiguous:
            msg = f"{name!r} is not dense in row-major order"
            raise ConfigError(msg, remedy="pass a contiguous copy, for example cupy.ascontiguousarray(x)")
        number = index if index is not None else view.device() or 0
    except KernelError as exc:
        raise ConfigError(str(exc), remedy="fill the masked elements first, or make a dense copy") from exc
    except (ImportError, RuntimeError) as exc:  # no driver, or one that does not know this memory
        msg = f"{name!r} says that it is on a GPU, and cannot be read there: {exc}"
        raise ConfigError(msg, remedy="see `cuda-harness doctor`, or pass an array on the host") from exc
    return Given(value, f"cuda:{number}", view.dtype, view.shape, back)
