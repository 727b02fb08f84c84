"""Medians with bootstrap intervals, and when a difference is one."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

RESAMPLES = 2_000


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % interval, in the unit of the samples."""

    value: float
    low: float
    high: float

    @property
    def relative_half_width(self) -> float:
        """Half the interval over the estimate."""
        return (self.high - self.low) / 2 / self.value if self.value else float("inf")


def median_interval(samples: ArrayLike, *, seed: int = 0) -> Interval:
    """Return the median and its percentile-bootstrap interval (Efron 1979); needs one sample or more.

    Raises:
        ValueError: If a sample is not finite and positive: such a time is an error, not a record.
    """
    data = _times(samples)
    medians = _bootstrap_medians(data, np.random.default_rng(seed))
    low, high = np.percentile(medians, (2.5, 97.5))
    return Interval(float(np.median(data)), float(low), float(high))


def paired_p_value(base: ArrayLike, other: ArrayLike) -> float:
    """Return how likely rounds this one-sided are when both take equally long: the two-sided signed-rank test.

    `base[i]` and `other[i]` come from one round, in random order: under equality their differences are symmetric
    about zero whatever the noise, so that the test keeps its level (Wilcoxon 1945). Lengths must be equal.
    """
    from scipy import stats

    a, b = _times(base), _times(other)
    differences = np.log(a) - np.log(b)
    if not differences.any():
        return 1.0
    found = stats.wilcoxon(differences, zero_method="zsplit", method="approx")
    return float(found.pvalue)


def paired_ratio_interval(base: ArrayLike, other: ArrayLike, *, seed: int = 0) -> Interval:
    """Return median(base) / median(other) with an interval from resampled rounds, so that drift cancels."""
    a, b = _times(base), _times(other)
    picks = np.random.default_rng(seed).integers(a.size, size=(RESAMPLES, a.size))
    low, high = np.percentile(np.median(a[picks], axis=1) / np.median(b[picks], axis=1), (2.5, 97.5))
    return Interval(float(np.median(a) / np.median(b)), float(low), float(high))


def _times(samples: ArrayLike) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    data = np.asarray(samples, dtype=np.float64).reshape(-1)
    if data.size == 0 or not np.isfinite(data).all() or (data <= 0).any():
        msg = "times must be finite and positive, and there must be one"
        raise ValueError(msg)
    return data


def _bootstrap_medians(
    data: np.ndarray[tuple[int], np.dtype[np.float64]], rng: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    picks = rng.integers(data.size, size=(RESAMPLES, data.size))
    return np.asarray(np.median(data[picks], axis=1), dtype=np.float64)
