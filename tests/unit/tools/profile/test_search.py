"""Search over tunables on synthetic landscapes."""

import itertools
import math
from collections.abc import Sequence

import pytest

from cuda_harness.tools.profile.search import (
    BUDGET,
    Config,
    Trial,
    configurations,
    has_optuna,
    search,
    space,
)

SMALL = {"BLOCK": (256, 128, 512), "ITEMS": (1, 2, 4, 8)}
LARGE = {"A": (8, 16, 32, 64, 128), "B": (1, 2, 4, 8, 16), "C": (1, 2, 3, 4, 5, 6), "D": (0, 1)}
STRATEGIES = [
    pytest.param(False, id="halving"),
    pytest.param(
        True, id="optuna", marks=pytest.mark.skipif(not has_optuna(), reason="optuna is not installed")
    ),
]


class Landscape:
    """Times by a formula; counts what was asked."""

    def __init__(self, best: Config, bad: Config | None = None) -> None:
        self.best, self.bad = best, bad
        self.asked: list[Config] = []

    def cost(self, config: Config) -> float:
        return 10.0 * math.prod(
            1 + 0.3 * abs(math.log2((v + 1) / (self.best[n] + 1))) for n, v in config.items()
        )

    def evaluate(self, configs: Sequence[Config], rounds: int) -> list[Trial]:
        self.asked += configs
        found = []
        for config in configs:
            if self.bad is not None and self.bad.items() <= config.items():
                found.append(Trial(config, "wrong", "y[0] is 1, expected 2"))
            else:
                us = self.cost(config)
                found.append(Trial(config, "timed", "", us, us / 10.0))
        return found


def test_the_default_comes_first_and_every_configuration_once() -> None:
    found = configurations(SMALL)
    assert found[0] == {"BLOCK": 256, "ITEMS": 1}
    assert len({tuple(c.items()) for c in found}) == len(found) == space(SMALL) == 12


def test_a_small_space_is_tried_whole_and_its_best_is_found() -> None:
    land = Landscape({"BLOCK": 512, "ITEMS": 4})
    found = search(SMALL, land.evaluate, seed=1)
    assert found.strategy == "exhaustive"
    assert len(found.trials) == found.total == 12
    assert found.best is not None
    assert found.best.tunables == {"BLOCK": 512, "ITEMS": 4}


def test_bad_configurations_are_data_and_never_win() -> None:
    land = Landscape({"BLOCK": 512, "ITEMS": 4}, bad={"BLOCK": 512})
    found = search(SMALL, land.evaluate, seed=1)
    assert [t.status for t in found.trials].count("wrong") == 4
    assert found.best is not None
    assert found.best.tunables["BLOCK"] == 256


def test_a_space_where_nothing_works_has_no_best() -> None:
    land = Landscape({"BLOCK": 512, "ITEMS": 4}, bad={})
    assert search(SMALL, land.evaluate, seed=1).best is None
    assert (
        search(LARGE, Landscape(dict.fromkeys(LARGE, 1), bad={}).evaluate, seed=1, use_optuna=False).best
        is None
    )


@pytest.mark.parametrize("use_optuna", STRATEGIES)
def test_a_large_space_is_searched_within_its_budget_and_well(use_optuna: bool) -> None:
    target = {"A": 32, "B": 4, "C": 2, "D": 1}
    land = Landscape(target)
    found = search(LARGE, land.evaluate, seed=3, use_optuna=use_optuna)
    assert found.total == 300
    assert len({tuple(sorted(c.items())) for c in land.asked}) <= BUDGET
    assert found.best is not None
    costs = sorted(land.cost(dict(zip(LARGE, c, strict=True))) for c in itertools.product(*LARGE.values()))
    assert found.best.median_us is not None
    assert found.best.median_us <= costs[len(costs) // 20], "among the best twentieth"


@pytest.mark.parametrize("use_optuna", STRATEGIES)
def test_the_same_seed_searches_the_same_way(use_optuna: bool) -> None:
    first, second = (Landscape({"A": 32, "B": 4, "C": 2, "D": 1}) for _ in range(2))
    for land in (first, second):
        search(LARGE, land.evaluate, seed=5, use_optuna=use_optuna)
    assert first.asked == second.asked


def test_the_default_is_always_among_those_tried() -> None:
    land = Landscape({"A": 128, "B": 16, "C": 6, "D": 1})
    search(LARGE, land.evaluate, seed=9, use_optuna=False)
    assert {n: v[0] for n, v in LARGE.items()} in land.asked
