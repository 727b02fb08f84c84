"""TMA descriptors for `{"tensor_map": ...}` arguments; strides are dense row-major."""

from typing import Any

import numpy as np

from cuda_harness.tools.execute.cuda.faults import Failed, fault

_TYPES = {
    "uint8": ("|u1", None), "int8": ("|u1", None), "bool": ("|u1", None), "float8_e4m3": ("|u1", None),
    "float8_e5m2": ("|u1", None), "uint16": ("<u2", None), "int16": ("<u2", None), "uint32": ("<u4", None),
    "int32": ("<i4", None), "uint64": ("<u8", None), "int64": ("<i8", None), "float16": ("<f2", None),
    "bfloat16": ("<u2", "bfloat16"), "float32": ("<f4", None), "float64": ("<f8", None),
}  # fmt: skip
"""IR element type -> how the array interface calls it, and the descriptor's own type where that differs."""


class _Raw:
    """A device address as an array, for cuda.core."""

    def __init__(self, address: int, shape: tuple[int, ...], typestr: str) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": typestr, "data": (address, False), "strides": None, "version": 3,
        }  # fmt: skip


def encode(address: int, spec: dict[str, Any]) -> Any:  # noqa: ANN401 - cuda.core TensorMapDescriptor
    """Return the descriptor of a buffer as a launch argument.

    Args:
        address: Of the buffer's first element.
        spec: A `TensorMapValue` as a dictionary.

    Raises:
        Failed: `launch_config`, when the driver refuses sizes, strides or the box.
    """
    from cuda.core import TensorMapDescriptorOptions
    from cuda.core.utils import StridedMemoryView

    wrong = why_refused(spec)
    if wrong:
        raise Failed(fault("launch_config", f"{_named(spec)}: {wrong}", buffer=spec["buffer"]))
    typestr, own = _TYPES[spec["dtype"]]
    try:
        usual = TensorMapDescriptorOptions(box_dim=tuple(spec["box"]))
        options = TensorMapDescriptorOptions(
            box_dim=tuple(spec["box"]), data_type=own,
            swizzle=_member(usual.swizzle, "NONE" if spec["swizzle"] == "none" else f"SWIZZLE_{spec['swizzle']}"),
            l2_promotion=_member(usual.l2_promotion, "NONE" if spec["l2"] == "none" else f"L2_{spec['l2']}"),
            oob_fill=_member(usual.oob_fill, "NAN_REQUEST_ZERO_FMA" if spec["oob"] == "nan" else "NONE"),
        )  # fmt: skip
        view = StridedMemoryView.from_cuda_array_interface(
            _Raw(address, tuple(spec["shape"]), typestr), stream_ptr=-1
        )
        return view.as_tensor_map(options=options)
    except (
        Exception
    ) as exc:  # what the driver refuses has a class of cuda.core's own, which it does not export
        raise Failed(fault("launch_config", f"{_named(spec)}: {exc}", buffer=spec["buffer"])) from exc


def why_refused(spec: dict[str, Any]) -> str:
    """Return which rule of the driver (CUDA driver API, cuTensorMapEncodeTiled) a descriptor breaks, empty for none."""
    item = np.dtype(_TYPES[spec["dtype"]][0]).itemsize
    shape, box = list(spec["shape"]), list(spec["box"])
    if not 1 <= len(shape) <= 5 or len(box) != len(shape):
        return "1 to 5 axes, and a box of as many"
    stride = item
    for size in reversed(shape[1:]):
        stride *= size
        if stride % 16:
            return f"strides must be multiples of 16 bytes, here one is {stride}"
    if any(not 1 <= side <= 256 for side in box):
        return "each side of the box is 1 to 256"
    width = box[-1] * item
    if width % 16:
        return f"the box's innermost side must be a multiple of 16 bytes, here it is {width}"
    if spec["swizzle"] != "none" and width > int(str(spec["swizzle"]).removesuffix("B")):
        return f"the box's innermost side has {width} bytes, more than the swizzle's {spec['swizzle']}"
    return ""


def _named(spec: dict[str, Any]) -> str:
    return f"the tensor map of {spec['buffer']!r} (shape {list(spec['shape'])}, box {list(spec['box'])})"


def _member(value: Any, name: str) -> Any:  # noqa: ANN401 - an enumeration of cuda.core, which does not export it
    return getattr(type(value), name)
