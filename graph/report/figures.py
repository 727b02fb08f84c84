"""Figures for a notebook, with the extra `plots`; everything else of a result works without it."""

from typing import TYPE_CHECKING, Literal

from cuda_harness.graph.report.evidence import Evidence
from cuda_harness.state.errors import ConfigError
from cuda_harness.state.results import STAGES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from cuda_harness.tools.profile.plots import Candidate

Kind = Literal["ladder", "time", "roofline"]


def figure_of(run: Evidence, kind: Kind) -> "Figure":
    """Return a figure: seconds of the ladder, time by attempt, or the roofline with all attempts.

    Raises:
        ConfigError: If matplotlib is missing, the kind is unknown, or nothing of it was measured; the user acts.
    """
    if kind == "ladder":
        return ladder_figure(run)
    if kind not in {"time", "roofline"}:
        msg = f"unknown figure {kind!r}"
        raise ConfigError(msg, remedy="choose one of: ladder, time, roofline")
    from cuda_harness.tools.profile.plots import progress_figure, roofline_figure

    timed = _candidates(run)
    name = run.ir.name if run.ir else ""
    if not timed:
        msg = "no attempt of this run was timed"
        raise ConfigError(msg, remedy="time is measured on a GPU: --executor cuda")
    if kind == "time":
        return progress_figure(timed, title=name)
    roof = next((a.profile.roofline for a in run.attempts if a.profile and a.profile.roofline), {})
    if "peak_gb_s" not in roof:
        msg = "the bandwidth of the device is not known, so there is no roof"
        raise ConfigError(msg, remedy="profile the kernel on a GPU")
    return roofline_figure(
        timed, peak_gb_s=roof["peak_gb_s"], peak_gflop_s=roof.get("peak_gflop_s"), title=name
    )


def _candidates(run: Evidence) -> "list[Candidate]":
    from cuda_harness.tools.profile.plots import Candidate

    best = min((a.timing.median_us for a in run.attempts if a.timing), default=None)
    found = []
    for attempt in run.attempts:
        timing = attempt.timing
        if timing is None:
            continue
        roof = attempt.profile.roofline if attempt.profile else {}
        found.append(
            Candidate(
                label=f"#{attempt.id} {attempt.strategy}", attempt=attempt.id, median_us=timing.median_us,
                ci95_us=timing.ci95_us, floor_us=timing.floor_us, flops_per_byte=roof.get("flops_per_byte"),
                gflop_s=timing.gflop_s, gb_s=timing.gb_s, best=timing.median_us == best,
            )
        )  # fmt: skip
    return found


def ladder_figure(run: Evidence) -> "Figure":
    """Return a figure of the seconds that each stage of the ladder took, attempt by attempt.

    Raises:
        ConfigError: If matplotlib is not installed, or no attempt was judged; the user acts.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as exc:
        msg = "figures need matplotlib, which is not installed"
        raise ConfigError(msg, remedy="pip install 'cuda-harness[plots]'") from exc
    judged = [a for a in run.attempts if a.verdict is not None]
    if not judged:
        msg = "no attempt of this run was judged, so there is nothing to draw"
        raise ConfigError(msg, remedy="see result.stop")
    figure = Figure(figsize=(7, 1.5 + 0.35 * len(judged)), layout="constrained")
    axes = figure.subplots()
    left = [0.0] * len(judged)
    for stage in STAGES:
        seconds = []
        for attempt in judged:
            found = attempt.verdict.stage(stage) if attempt.verdict else None
            seconds.append(found.seconds if found is not None and found.status != "not_measured" else 0.0)
        if any(seconds):
            axes.barh([f"#{a.id} {a.strategy}" for a in judged], seconds, left=left, label=stage)
            left = [start + more for start, more in zip(left, seconds, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    axes.set_title("the ladder, attempt by attempt")
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small")
    return figure
