"""Names and element types shared by IR and plan."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from cuda_harness.state.expr import RESERVED

DType = Literal[
    "float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32", "float64",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
]  # fmt: skip
"""Element types; complex numbers are a trailing dim of 2."""

ITEM_BYTES: dict[str, int] = {
    "float8_e4m3": 1, "float8_e5m2": 1, "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8,
    "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "bool": 1,
}  # fmt: skip
FLOATS = frozenset({"float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32", "float64"})
INTEGERS = frozenset(ITEM_BYTES) - FLOATS - {"bool"}
C_TYPES: dict[str, str] = {
    "float8_e4m3": "__nv_fp8_e4m3", "float8_e5m2": "__nv_fp8_e5m2", "float16": "__half", "bfloat16": "__nv_bfloat16",
    "float32": "float", "float64": "double", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t",
    "int64": "int64_t", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
    "bool": "bool",
}  # fmt: skip
"""How each element type is spelled in `kernel.cu`."""

MAX_NAME = 64
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
_TUNABLE = re.compile(r"[A-Z][A-Z0-9_]*\Z", re.ASCII)


def _identifier(name: str) -> str:
    if not _IDENTIFIER.match(name) or len(name) > MAX_NAME:
        msg = f"{name[:80]!r} is not a C identifier of at most {MAX_NAME} characters"
        raise ValueError(msg)
    if name in RESERVED:
        msg = f"{name!r} is reserved by the expression language"
        raise ValueError(msg)
    return name


def _tunable(name: str) -> str:
    if not _TUNABLE.match(name) or len(name) > MAX_NAME or name in RESERVED:
        msg = f"tunable {name[:80]!r} must match [A-Z][A-Z0-9_]*"
        raise ValueError(msg)
    return name


Identifier = Annotated[str, AfterValidator(_identifier)]
Tunable = Annotated[str, AfterValidator(_tunable)]
Short = Annotated[str, Field(max_length=4_000)]
"""Free text in a document: bounded, never interpreted."""
