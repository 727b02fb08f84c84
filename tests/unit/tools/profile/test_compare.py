"""Telling kernels apart, on synthetic times."""

import numpy as np

from cuda_harness.tools.profile.compare import SMALLEST, judge_samples


def times(rng: np.random.Generator, center: float, count: int = 60) -> np.ndarray:
    found = center * (1 + 0.004 * rng.gamma(2.0, size=count))
    found[rng.random(count) < 0.02] *= 1.4
    return np.round(found / 0.032) * 0.032  # events tick in steps


def test_two_copies_are_told_apart_in_at_most_five_of_a_hundred() -> None:
    rng = np.random.default_rng(1)
    told = sum(judge_samples(times(rng, 20.0), times(rng, 20.0)).significant for _ in range(100))
    assert told <= 5


def test_a_gain_of_three_percent_is_seen_and_says_who_is_faster() -> None:
    rng = np.random.default_rng(2)
    found = judge_samples(times(rng, 20.6), times(rng, 20.0))
    assert found.significant
    assert found.faster == "b"
    assert found.ci95[0] > 1.0
    assert abs(found.ratio - 1.03) < 0.01
    assert judge_samples(times(rng, 20.0), times(rng, 20.6)).faster == "a"


def test_a_difference_too_small_to_mean_something_is_none() -> None:
    rng = np.random.default_rng(3)
    base = times(rng, 20.0, 1500)
    found = judge_samples(base, base * (1 + SMALLEST / 3))
    assert found.p_value < 1e-6
    assert not found.significant
    assert found.faster is None


def test_interruptions_of_single_calls_decide_nothing() -> None:
    rng = np.random.default_rng(4)
    a, b = times(rng, 20.0), times(rng, 20.0)
    b[:5] *= 8
    assert not judge_samples(a, b).significant
