"""Two pictures of a run: the roofline with all candidates, and the time by attempt. Needs the extra `plots`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.results import Profile, Timing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SIZE = (6.4, 4.2)


@dataclass(frozen=True)
class Candidate:
    """One timed kernel as a point."""

    label: str
    attempt: int
    median_us: float
    ci95_us: tuple[float, float]
    floor_us: float | None = None
    flops_per_byte: float | None = None
    gflop_s: float | None = None
    gb_s: float | None = None
    best: bool = False


def roofline_figure(
    candidates: Sequence[Candidate], *, peak_gb_s: float, peak_gflop_s: float | None, title: str = ""
) -> "Figure":
    """Return the roof of a device with every candidate below it.

    Candidates with operations stand at (operations a byte, GFLOP/s). Where the problem has none (a copy), the axes
    are attempt and GB/s below the bandwidth's line.

    Raises:
        ConfigError: If matplotlib is missing; the user installs it.
    """
    figure, axes = _figure()
    placed = [c for c in candidates if c.flops_per_byte and c.gflop_s]
    if placed and peak_gflop_s:
        _roof(axes, placed, peak_gb_s, peak_gflop_s)
    else:
        _bandwidth(axes, [c for c in candidates if c.gb_s], peak_gb_s)
    axes.set_title(title)
    axes.grid(visible=True, which="both", linewidth=0.3)
    return figure


def _roof(axes: "Axes", placed: Sequence[Candidate], peak_gb_s: float, peak_gflop_s: float) -> None:
    ridge = peak_gflop_s / peak_gb_s
    low = min(ridge, *(c.flops_per_byte or ridge for c in placed)) / 4
    high = max(ridge, *(c.flops_per_byte or ridge for c in placed)) * 4
    x = np.geomspace(low, high, 200)
    axes.loglog(x, np.minimum(peak_gflop_s, x * peak_gb_s), color="black", linewidth=1.2)
    for c in placed:
        axes.scatter(
            [c.flops_per_byte or 0.0],
            [c.gflop_s or 0.0],
            s=60 if c.best else 25,
            marker="*" if c.best else "o",
        )
        axes.annotate(
            c.label,
            (c.flops_per_byte or 0.0, c.gflop_s or 0.0),
            fontsize=7,
            xytext=(4, 3),
            textcoords="offset points",
        )
    axes.set_xlabel("operations per compulsory byte")
    axes.set_ylabel("GFLOP/s")


def _bandwidth(axes: "Axes", placed: Sequence[Candidate], peak_gb_s: float) -> None:
    axes.axhline(peak_gb_s, color="black", linewidth=1.2)
    for c in placed:
        axes.scatter([c.attempt], [c.gb_s or 0.0], s=60 if c.best else 25, marker="*" if c.best else "o")
        axes.annotate(
            c.label, (c.attempt, c.gb_s or 0.0), fontsize=7, xytext=(4, 3), textcoords="offset points"
        )
    axes.set_ylim(0, peak_gb_s * 1.1)
    axes.set_xlabel("attempt")
    axes.set_ylabel("compulsory GB/s")


def progress_figure(candidates: Sequence[Candidate], *, title: str = "") -> "Figure":
    """Return time by attempt with 95 % intervals, the best so far as a line, and the floor.

    Raises:
        ConfigError: If matplotlib is missing; the user installs it.
    """
    figure, axes = _figure()
    ordered = sorted(candidates, key=lambda c: c.attempt)
    xs = [c.attempt for c in ordered]
    ys = np.array([c.median_us for c in ordered], dtype=np.float64)
    spread = (
        np.array([[c.median_us - c.ci95_us[0], c.ci95_us[1] - c.median_us] for c in ordered]).reshape(-1, 2).T
    )
    if ordered:
        axes.errorbar(xs, ys, yerr=np.maximum(spread, 0.0), fmt="o", markersize=4, capsize=2)
        axes.step(xs, np.minimum.accumulate(ys), where="post", linewidth=1.0, label="best so far")
    floors = [c.floor_us for c in ordered if c.floor_us]
    if floors:
        axes.axhline(max(floors), color="black", linestyle="--", linewidth=1.0, label="floor")
    axes.set_xlabel("attempt")
    axes.set_ylabel("median time, us")
    axes.set_ylim(bottom=0)
    axes.set_title(title)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8)
    return figure


def save(figure: "Figure", path: Path) -> None:
    """Write a figure; its suffix says the format (`.svg`, `.png`, `.pdf`)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _figure() -> "tuple[Figure, Axes]":
    """Return a figure on the Agg canvas: no display, no global state."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as exc:
        msg = "plots need matplotlib"
        raise ConfigError(msg, remedy="pip install 'cuda-harness[plots]'") from exc
    figure = Figure(figsize=_SIZE, layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots()


def candidate(
    label: str, attempt: int, timing: Timing, profile: Profile | None = None, *, best: bool = False
) -> Candidate:
    """Return a timed attempt as a point."""
    roof = profile.roofline if profile is not None else {}
    return Candidate(
        label, attempt, timing.median_us, timing.ci95_us, timing.floor_us, roof.get("flops_per_byte"), timing.gflop_s, timing.gb_s, best
    )  # fmt: skip
