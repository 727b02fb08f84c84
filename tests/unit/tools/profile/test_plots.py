"""Pictures on a canvas without a display."""

from pathlib import Path

import pytest

from cuda_harness.state.results import Profile, Timing
from cuda_harness.tools.profile.plots import Candidate, candidate, progress_figure, roofline_figure, save

pytest.importorskip("matplotlib", reason="matplotlib (extra `plots`) is not installed")

POINTS = (
    Candidate("first", 0, 40.0, (39.0, 41.0), 10.0, 0.75, 750.0, 1000.0),
    Candidate("tiled <b>", 3, 20.0, (19.5, 20.5), 10.0, 0.75, 1500.0, 2000.0, best=True),
)


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_roof_holds_every_candidate(tmp_path: Path, suffix: str) -> None:
    figure = roofline_figure(POINTS, peak_gb_s=4000.0, peak_gflop_s=60_000.0, title="softmax")
    axes = figure.axes[0]
    assert {t.get_text() for t in axes.texts} == {"first", "tiled <b>"}
    roof = axes.lines[0].get_ydata()
    assert max(roof) == 60_000.0
    assert all(c.gflop_s is not None and c.gflop_s < max(roof) for c in POINTS)
    save(figure, tmp_path / f"plots/roof.{suffix}")
    assert (tmp_path / f"plots/roof.{suffix}").stat().st_size > 2_000


def test_a_problem_without_operations_is_held_against_the_bandwidth() -> None:
    copies = (Candidate("copy", 1, 10.0, (9.0, 11.0), 8.0, None, None, 3200.0),)
    axes = roofline_figure(copies, peak_gb_s=4000.0, peak_gflop_s=60_000.0).axes[0]
    assert axes.get_ylabel() == "compulsory GB/s"
    assert list(axes.lines[0].get_ydata()) == [4000.0, 4000.0]


def test_progress_shows_the_best_so_far_and_the_floor() -> None:
    axes = progress_figure(POINTS[::-1]).axes[0]
    labels = axes.get_legend_handles_labels()[1]
    assert set(labels) == {"best so far", "floor"}
    best = next(line for line in axes.lines if line.get_label() == "best so far")
    assert list(best.get_xdata()) == [0, 3]
    assert list(best.get_ydata()) == [40.0, 20.0]


def test_no_candidate_gives_an_empty_picture(tmp_path: Path) -> None:
    save(progress_figure(()), tmp_path / "empty.png")
    assert (tmp_path / "empty.png").is_file()


def test_a_timed_attempt_becomes_a_point() -> None:
    timing = Timing(
        median_us=20.0,
        ci95_us=(19.0, 21.0),
        samples=30,
        device="d",
        floor_us=10.0,
        gb_s=2000.0,
        gflop_s=1500.0,
    )
    profile = Profile(rung="cubin", bound="memory", sentence="s", roofline={"flops_per_byte": 0.75})
    assert candidate("tiled <b>", 3, timing, profile, best=True) == Candidate(
        "tiled <b>", 3, 20.0, (19.0, 21.0), 10.0, 0.75, 1500.0, 2000.0, best=True
    )
