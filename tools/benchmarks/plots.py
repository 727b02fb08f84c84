"""Plots of results as PNG images by caption; none where matplotlib is not installed."""

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_FUNC = "Func by level"


def plots(summary: Mapping[str, Any], results: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    """Return Func by level, speeds against bench.cu, and cost; what was not measured is not drawn."""
    levels = {n: f["func_percent"] for n, f in summary["levels"].items() if f["func_percent"] is not None}
    speeds = [r["speed_vs_reference"] for r in results if r["func"] and r["speed_vs_reference"] is not None]
    tokens = [r["output_tokens"] for r in results if r["output_tokens"]]
    calls = [r["calls"] for r in results if r["calls"]]

    def by_level(axes: Any) -> None:  # noqa: ANN401 - an Axes
        axes.bar(list(levels), list(levels.values()))
        axes.set(xlabel="level", ylabel="Func, %", ylim=(0, 100))

    def spread(axes: Any) -> None:  # noqa: ANN401 - an Axes
        axes.hist(speeds, bins=30)
        axes.axvline(1.0, linestyle="--", color="gray")
        axes.set(xlabel="speed against bench.cu", ylabel="programs")

    def cost(axes: Any) -> None:  # noqa: ANN401 - an Axes
        axes.hist(tokens or calls, bins=30)
        axes.set(xlabel="output tokens" if tokens else "calls", ylabel="results")

    return _drawn({
        **({_FUNC: by_level} if levels else {}),
        **({"Speed against bench.cu, functional programs": spread} if speeds else {}),
        **({"Cost": cost} if tokens or calls else {}),
    })  # fmt: skip


def paired_plots(document: Mapping[str, Any]) -> dict[str, bytes]:
    """Return Func by level of two runs side by side."""
    levels = {
        n: (pair["a"]["func_percent"], pair["b"]["func_percent"]) for n, pair in document["levels"].items()
    }
    known = {n: pair for n, pair in levels.items() if None not in pair}

    def by_level(axes: Any) -> None:  # noqa: ANN401 - an Axes
        for offset, side in ((-0.2, 0), (0.2, 1)):
            heights = [pair[side] for pair in known.values()]
            axes.bar([i + offset for i in range(len(known))], heights, width=0.4, label="AB"[side])
        axes.set_xticks(range(len(known)), list(known))
        axes.set(xlabel="level", ylabel="Func, %", ylim=(0, 100))
        axes.legend()

    return _drawn({_FUNC: by_level} if known else {})


def _drawn(wanted: Mapping[str, Callable[[Any], None]]) -> dict[str, bytes]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return {}
    found = {}
    for caption, draw in wanted.items():
        figure = Figure(figsize=(6, 3.2), dpi=110, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.subplots())
        data = io.BytesIO()
        figure.savefig(data, format="png")
        found[caption] = data.getvalue()
    return found
