"""TMA descriptors for `{"tensor_map": ...}` arguments; strides are dense row-major."""

from typing import Any

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
        message = (
            f"the tensor map of {spec['buffer']!r} (shape {list(spec['shape'])}, box {list(spec['box'])}) is refused: rows must "
            f"be a multiple of 16 bytes, the box at most 256 a side and within its swizzle's width: {exc}"
        )
        raise Failed(fault("launch_config", message, buffer=spec["buffer"])) from exc


def _member(value: Any, name: str) -> Any:  # noqa: ANN401 - an enumeration of cuda.core, which does not export it
    return getattr(type(value), name)
