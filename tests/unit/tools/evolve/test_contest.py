"""Who becomes base: by an interval that clears it, else by counts that gain and lose nothing."""

from dataclasses import dataclass

import pytest

from cuda_harness.tools.evolve.contest import by_counts, by_time, choose, measured


@dataclass(frozen=True)
class Found:
    ratio: float
    ci95: tuple[float, float]
    significant: bool = True


@pytest.mark.parametrize(
    ("found", "better"),
    [
        (Found(1.2, (1.15, 1.25)), True),
        (Found(1.2, (0.99, 1.4)), False),
        (Found(1.2, (1.01, 1.4), significant=False), False),
        (Found(1.005, (1.002, 1.008)), False),
        (Found(0.8, (0.78, 0.82)), False),
    ],
)
def test_only_a_clear_gain_wins(found: Found, better: bool) -> None:
    contest = by_time(1, 2, found)
    assert contest.better is better
    assert contest.basis == "time"
    assert contest.ci95 == found.ci95


def test_a_comparison_that_contradicts_itself_is_taken_once_more() -> None:
    seeds: list[int] = []

    def measure(seed: int) -> Found:
        seeds.append(seed)
        return Found(1.2, (1.1, 1.3), significant=len(seeds) > 1)

    assert measured(measure, seed=5).significant
    assert seeds == [5, 6]
    clear = measured(lambda _: Found(0.9, (0.8, 1.0), significant=False), seed=1)
    assert clear.ratio == 0.9


@pytest.mark.parametrize(
    ("old", "new", "better", "said"),
    [
        ({"global_sectors": 100.0}, {"global_sectors": 50.0}, True, "better in 32-byte sectors"),
        ({"global_sectors": 100.0}, {"global_sectors": 99.0}, False, "the same in everything"),
        (
            {"global_sectors": 100.0, "spill_bytes": 0.0},
            {"global_sectors": 50.0, "spill_bytes": 8.0},
            False,
            "but worse in bytes of spilled",
        ),
        ({"registers": 20.0}, {"registers": 60.0}, False, "the same in everything"),
        ({"registers": 90.0}, {"registers": 120.0}, False, "worse in registers"),
        ({"launches": 2.0}, {"launches": 1.0}, True, "better in launches"),
        ({"barriers_per_block": 0.0}, {"barriers_per_block": 4.0}, False, "the same in everything"),
        ({"barriers_per_block": 0.0}, {"barriers_per_block": 40.0}, False, "worse in barriers a block"),
        ({"launches": 1.0}, {"atomics": 1.0}, False, "nothing that both"),
    ],
)
def test_counts_must_gain_something_and_lose_nothing(
    old: dict[str, float], new: dict[str, float], better: bool, said: str
) -> None:
    contest = by_counts(1, 2, old, new)
    assert contest.better is better
    assert said in contest.reason
    assert contest.reason.endswith("time was not measured")
    assert contest.ratio is None


def test_the_largest_certain_gain_wins_and_ties_go_to_the_earlier() -> None:
    sure, wide = by_time(1, 9, Found(1.3, (1.28, 1.32))), by_time(1, 5, Found(1.4, (1.05, 1.8)))
    assert choose((wide, sure)) is sure
    same = by_time(1, 3, Found(1.3, (1.28, 1.32)))
    assert choose((sure, same)) is same
    assert choose(()) is None
