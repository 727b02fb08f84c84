"""Element types of the IR as NumPy dtypes, and how references see them."""

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

_DTYPES: dict[str, np.dtype[Any]] = {
    "float8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
}
"""CUDA's e4m3 is the finite-only variant (no infinities, one NaN pattern a sign)."""

WIDENED = frozenset(_DTYPES)
"""Types that a reference receives as float32 holding representable values (CONTRACT.md 4)."""


def np_dtype(name: str) -> np.dtype[Any]:
    """Return the NumPy dtype of an IR element type; bfloat16 and fp8 come from ml_dtypes."""
    return _DTYPES.get(name) or np.dtype(name)


def to_reference(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Return `array` as a reference sees it: bfloat16 and fp8 widened to float32, all else unchanged."""
    return array.astype(np.float32) if name in WIDENED else array
