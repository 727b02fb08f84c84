import numpy as np
import pytest

from cuda_harness.tools.profile.stats import median_interval, paired_p_value, paired_ratio_interval


def noisy(rng: np.random.Generator, center: float, count: int = 80) -> np.ndarray:
    """Right-skewed, as kernel times are: a floor, jitter, and now and then an interruption."""
    times = center * (1 + 0.01 * rng.gamma(2.0, size=count))
    times[rng.random(count) < 0.03] *= 1.5
    return times


def test_interval_covers_the_true_median_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    truth = float(np.median(noisy(rng, 10.0, 400_000)))
    hits = 0
    for _ in range(200):
        interval = median_interval(noisy(rng, 10.0))
        hits += interval.low <= truth <= interval.high
    assert 180 <= hits <= 199


@pytest.mark.parametrize("bad", [[], [0.0], [-1.0], [1.0, float("nan")], [float("inf")]])
def test_impossible_times_are_errors(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="finite and positive"):
        median_interval(bad)


def test_the_paired_test_keeps_its_level_under_drift_that_hits_both() -> None:
    rng = np.random.default_rng(4)
    drift = np.linspace(1.0, 1.3, 60)  # clocks that fall while both are timed
    told = sum(
        paired_p_value(noisy(rng, 10.0, 60) * drift, noisy(rng, 10.0, 60) * drift) < 0.01 for _ in range(300)
    )
    assert told <= 9


def test_the_paired_interval_has_its_size_in_spite_of_drift() -> None:
    rng = np.random.default_rng(5)
    drift = np.linspace(1.0, 1.3, 120)
    interval = paired_ratio_interval(noisy(rng, 10.0, 120) * drift, noisy(rng, 9.0, 120) * drift)
    assert interval.low < 10 / 9 < interval.high
    alone = median_interval(noisy(rng, 10.0, 120) * drift)
    assert interval.relative_half_width < 0.7 * 2**0.5 * alone.relative_half_width, (
        "drift cancels in the ratio"
    )


def test_equal_samples_are_not_told_apart() -> None:
    assert paired_p_value([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]) == 1.0
