"""Large float outputs, looked at once in pieces that stay in the cache: most are right by the least that is allowed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.tools.execute.dtypes import np_dtype

Array = NDArray[Any]
PIECE = 1 << 17
"""Elements of a piece; smaller outputs are not worth it."""


_SURE = 1.0 - 1e-9
"""The full comparison adds its terms in another order: at the bound itself it might decide otherwise."""


def within(actual: Array, truth: Array, dtype: str, *, relative: float, absolute: float) -> float | None:
    """Return the largest share of its bound that any element is off by, `None` where one needs a closer look.

    Args:
        actual: What a kernel wrote, in its exact dtype.
        truth: The same shape, float64.
        dtype: Name of the output's type.
        relative: Share of each element that it may be off by.
        absolute: What it may be off by besides; above 0.

    Elements that are not finite, or whose truth the type cannot hold, need a closer look.
    """
    got, want = actual.reshape(-1), truth.reshape(-1)
    largest = _largest(dtype)
    worst = 0.0
    for first in range(0, got.size, PIECE):
        wide = want[first : first + PIECE]
        error = got[first : first + PIECE].astype(np.float64)
        np.subtract(error, wide, out=error)
        np.abs(error, out=error)
        bound = np.abs(wide)
        # A NaN among the truths makes this false as well, one among the values the next.
        if not float(bound.max()) <= largest:
            return None
        bound *= relative
        bound += absolute
        np.divide(error, bound, out=error)
        share = float(error.max())
        if not share <= _SURE:
            return None
        worst = max(worst, share)
    return worst


def _largest(dtype: str) -> float:
    """Return a magnitude up to which truths stay finite when they are rounded to the type."""
    import ml_dtypes

    return float(ml_dtypes.finfo(np_dtype(dtype)).max)  # type: ignore[no-untyped-call]
