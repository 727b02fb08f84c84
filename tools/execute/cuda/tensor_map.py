"""TMA descriptors for `{"tensor_map": ...}` arguments; strides are dense row-major."""

import ctypes
from typing import Any

from cuda_harness.state.names import ITEM_BYTES
from cuda_harness.tools.execute.cuda.faults import check

_TYPES = {
    "uint8": "UINT8", "int8": "UINT8", "bool": "UINT8", "float8_e4m3": "UINT8", "float8_e5m2": "UINT8",
    "uint16": "UINT16", "int16": "UINT16", "uint32": "UINT32", "int32": "INT32", "uint64": "UINT64", "int64": "INT64",
    "float16": "FLOAT16", "bfloat16": "BFLOAT16", "float32": "FLOAT32", "float64": "FLOAT64",
}  # fmt: skip


def encode(driver: Any, address: int, spec: dict[str, Any]) -> Any:  # noqa: ANN401 - driver module and CUtensorMap
    """Return the descriptor of a buffer as a by-value launch argument; raises `Failed` with the reason."""
    rank, item = len(spec["shape"]), ITEM_BYTES[spec["dtype"]]
    sizes = list(reversed(spec["shape"]))
    strides, step = [], item
    for size in sizes[:-1]:
        step *= size
        strides.append(step)
    swizzle = {"none": "NONE"}.get(spec["swizzle"], spec["swizzle"])
    result = driver.cuTensorMapEncodeTiled(
        getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{_TYPES[spec['dtype']]}"),
        rank,
        address,
        [driver.cuuint64_t(n) for n in sizes],
        [driver.cuuint64_t(n) for n in strides],
        [driver.cuuint32_t(n) for n in reversed(spec["box"])],
        [driver.cuuint32_t(1)] * rank,
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{swizzle}"),
        getattr(driver.CUtensorMapL2promotion, "CU_TENSOR_MAP_L2_PROMOTION_" + _l2(spec["l2"])),
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
        if spec["oob"] == "nan"
        else driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    descriptor = check(result, f"encoding the tensor map of {spec['buffer']!r} with box {spec['box']}")
    return (ctypes.c_uint64 * 16).from_buffer_copy(bytes(ctypes.string_at(int(descriptor.getPtr()), 128)))


def _l2(size: str) -> str:
    return {"none": "NONE", "64B": "L2_64B", "128B": "L2_128B", "256B": "L2_256B"}[size]
