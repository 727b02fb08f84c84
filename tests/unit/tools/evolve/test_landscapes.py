"""The Evolver's rules on synthetic landscapes, in small; `make bench` runs all of them over twenty seeds."""

import pytest
from tests.bench.landscapes import CAP, LANDSCAPES, World, evolve, noise_accept_rate, search_at_random

SEEDS = range(3)


@pytest.mark.parametrize("number", [1, 2, 5], ids=lambda n: LANDSCAPES[n].name)
def test_the_rules_need_at_most_half_of_what_random_search_needs(number: int) -> None:
    landscape = LANDSCAPES[number]
    ours = sum(evolve(World(landscape, seed)) for seed in SEEDS)
    theirs = sum(search_at_random(World(landscape, seed), seed) for seed in SEEDS)
    assert ours <= 0.5 * theirs
    assert ours < CAP * len(SEEDS)


def test_two_equal_kernels_are_rarely_told_apart() -> None:
    assert noise_accept_rate(60) <= 0.05


def test_there_are_five_shapes_or_more_and_each_has_something_to_find() -> None:
    assert len(LANDSCAPES) >= 5
    for landscape in LANDSCAPES:
        world = World(landscape, 0)
        assert world.best_us < 0.8 * world.time_us(frozenset())
