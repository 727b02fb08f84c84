"""Layered graphs and bars as inline SVG: no script, no plotting library, colours by class from the style sheet."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import networkx as nx
from markupsafe import Markup

from cuda_harness.graph.report.markup import clean, el

_CHAR, _LINE, _PAD, _GAP_X, _GAP_Y = 7.3, 16, 9, 18, 46
"""Width of a character and height of a line at 12 px, padding of a box, gaps between boxes and layers, in px."""
_MAX_CHARS = 34
_BEND = "bend"
"""Kind of the places where an arrow passes a layer."""


@dataclass(frozen=True)
class Box:
    """A node: its lines of text, the first one strong, and the class that colours it."""

    id: str
    lines: tuple[str, ...]
    kind: str = "step"

    @property
    def width(self) -> float:
        """Width in px."""
        if not self.lines:
            return 2.0
        return 2 * _PAD + _CHAR * max((len(_short(line)) for line in self.lines), default=1)

    @property
    def height(self) -> float:
        """Height in px."""
        if not self.lines:
            return 2 * _PAD + _LINE * 2 - 4  # straight down beside a box of two lines
        return 2 * _PAD + _LINE * len(self.lines) - 4


@dataclass(frozen=True)
class Arrow:
    """An edge from box to box, with a short label."""

    source: str
    target: str
    label: str = ""


def layered(boxes: Sequence[Box], arrows: Iterable[Arrow], *, title: str) -> Markup:
    """Return a graph drawn top down, one row per layer; arrows that would close a cycle are left out.

    Args:
        boxes: The nodes; within a layer they keep this order, then follow their parents.
        arrows: The edges; ends that name no box are left out.
        title: What a screen reader says.
    """
    by_id = {b.id: b for b in boxes}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(by_id)
    kept = []
    for arrow in arrows:
        known = arrow.source in by_id and arrow.target in by_id and arrow.source != arrow.target
        if known and not nx.has_path(graph, arrow.target, arrow.source):
            graph.add_edge(arrow.source, arrow.target)
            kept.append(arrow)
    depth = _depths(graph)
    routes = [_route(graph, depth, by_id, a) for a in kept]
    places, width, height = _places(_layers(graph, depth), by_id)
    drawn = [_arrow(route, places, by_id, a.label) for route, a in zip(routes, kept, strict=True)]
    drawn += [_box(box, *places[name]) for name, box in by_id.items() if box.kind != _BEND]
    return _svg(drawn, width, height, title)


def _depths(graph: "nx.DiGraph[str]") -> dict[str, int]:
    """Return the layer of each node: the longest path from a source; a late input stands just above its first use."""
    depth: dict[str, int] = {}
    order = list(nx.topological_sort(graph))
    for name in order:
        depth[name] = max((depth[p] + 1 for p in graph.predecessors(name)), default=0)
    for name in reversed(order):
        below = [depth[s] for s in graph.successors(name)]
        if below and not graph.in_degree(name):
            depth[name] = min(below) - 1
    return depth


def _route(graph: "nx.DiGraph[str]", depth: dict[str, int], by_id: dict[str, Box], arrow: Arrow) -> list[str]:
    """Return the nodes an arrow passes: a bend in each layer between its ends, so that no box hides it."""
    way = [arrow.source]
    for layer in range(depth[arrow.source] + 1, depth[arrow.target]):
        bend = f"bend {arrow.source} {arrow.target} {layer}"
        depth[bend], by_id[bend] = layer, Box(bend, (), _BEND)
        graph.add_edge(way[-1], bend)
        way.append(bend)
    if len(way) > 1:
        graph.remove_edge(arrow.source, arrow.target)
        graph.add_edge(way[-1], arrow.target)
    return [*way, arrow.target]


def _layers(graph: "nx.DiGraph[str]", depth: Mapping[str, int]) -> list[list[str]]:
    """Return the names layer by layer, each ordered by the middle of its parents."""
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name in graph.nodes:
        layers[depth[name]].append(name)
    rank: dict[str, float] = {}
    for layer in layers:
        for index, name in enumerate(layer):
            parents = [rank[p] for p in graph.predecessors(name) if p in rank]
            rank[name] = sum(parents) / len(parents) if parents else index / max(1, len(layer))
        layer.sort(key=rank.__getitem__)
        rank.update({name: (i + 0.5) / len(layer) for i, name in enumerate(layer)})
    return layers


def _places(
    layers: Sequence[Sequence[str]], by_id: Mapping[str, Box]
) -> tuple[dict[str, tuple[float, float]], float, float]:
    """Return the upper left corner of each box, and the size of the picture."""
    widths = [sum(by_id[n].width for n in layer) + _GAP_X * (len(layer) - 1) for layer in layers]
    total = max(widths, default=0.0)
    places: dict[str, tuple[float, float]] = {}
    y = 4.0
    for layer, width in zip(layers, widths, strict=True):
        x = 4 + (total - width) / 2
        for name in layer:
            places[name] = (x, y)
            x += by_id[name].width + _GAP_X
        y += max(by_id[n].height for n in layer) + _GAP_Y
    return places, total + 8, max(y - _GAP_Y + 4, 8.0)


def _box(box: Box, x: float, y: float) -> Markup:
    texts = [
        el(
            "text",
            _short(line),
            x=x + box.width / 2,
            y=y + _PAD + 10 + _LINE * i,
            class_="strong" if i == 0 else None,
        )
        for i, line in enumerate(box.lines)
    ]
    full = "\n".join(box.lines)
    return el(
        "g",
        el("title", full),
        el("rect", x=x, y=y, width=box.width, height=box.height, rx=6),
        texts,
        class_=f"box {box.kind}",
    )


def _arrow(
    route: Sequence[str], places: Mapping[str, tuple[float, float]], by_id: Mapping[str, Box], label: str
) -> Markup:
    points = []
    for name in route:
        x, y = places[name][0] + by_id[name].width / 2, places[name][1]
        points.append((x, y if name == route[-1] else y + by_id[name].height))
        if name not in {route[0], route[-1]}:
            points.insert(-1, (x, y))
    points[-1] = (points[-1][0], points[-1][1] - 6)
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for i, (x, y) in enumerate(points[1:], start=1):
        before = points[i - 1]
        middle = (before[1] + y) / 2
        path += f" C{before[0]:.1f} {middle:.1f} {x:.1f} {middle:.1f} {x:.1f} {y:.1f}"
    x, y = points[-1]
    head = f"M{x - 4:.1f} {y:.1f} L{x + 4:.1f} {y:.1f} L{x:.1f} {y + 6:.1f} Z"
    start = points[-2]
    text = (
        el("text", _short(label), x=(start[0] + x) / 2 + 4, y=(start[1] + y) / 2 + 4, class_="label")
        if label
        else None
    )
    return el("g", el("path", d=path, class_="edge"), el("path", d=head, class_="head"), text)


Tone = Literal["good", "bad", "mute", "plain", "accent"]


@dataclass(frozen=True)
class Bar:
    """One bar: a value with its interval, in the unit of the chart; `None` is said, not drawn."""

    label: str
    value: float | None
    interval: tuple[float, float] | None = None
    tone: Tone = "plain"
    note: str = ""


def bars(
    rows: Sequence[Bar], *, unit: str, title: str, marks: Mapping[str, float] | None = None
) -> Markup | None:
    """Return horizontal bars on one linear scale from zero, with dashed lines for `marks` (a floor, a baseline).

    `None` when no row has a value: an empty chart says nothing.
    """
    marks = marks or {}
    known = [v for r in rows if r.value is not None for v in (r.value, *(r.interval or ()))]
    if not known:
        return None
    left = 12 + _CHAR * max(len(_short(r.label)) for r in rows)
    span, right, row_height = 300.0, 150.0, 26
    top = 8 + 16 * len(marks)
    scale = span / (max([*known, *marks.values()]) or 1.0)
    height = top + row_height * len(rows) + 6
    drawn: list[Markup] = []
    for i, row in enumerate(rows):
        y = top + row_height * i
        drawn.append(el("text", _short(row.label), x=left - 8, y=y + 17, class_="axis"))
        if row.value is None:
            drawn.append(el("text", row.note or "not measured", x=left + 4, y=y + 17, class_="label"))
            continue
        drawn.append(
            el(
                "rect",
                x=left,
                y=y + 5,
                width=max(row.value * scale, 1.0),
                height=16,
                rx=3,
                class_=f"bar {row.tone}",
            )
        )
        end = row.value
        if row.interval is not None:
            low, high = (left + v * scale for v in row.interval)
            drawn.append(
                el(
                    "path",
                    d=f"M{low:.1f} {y + 13} H{high:.1f} M{low:.1f} {y + 9} v8 M{high:.1f} {y + 9} v8",
                    class_="whisker",
                )
            )
            end = max(end, row.interval[1])
        text = f"{quantity(row.value)} {unit}" + (f"  {row.note}" if row.note else "")
        drawn.append(el("text", text, x=left + end * scale + 6, y=y + 17, class_="label"))
    for i, (name, value) in enumerate(marks.items()):
        x = left + value * scale
        drawn.append(el("path", d=f"M{x:.1f} {12 + 16 * i} V{height - 4}", class_="mark"))
        drawn.append(el("text", f"{name} {quantity(value)} {unit}", x=x + 4, y=14 + 16 * i, class_="label"))
    return _svg(drawn, left + span + right, height, title)


def quantity(value: float) -> str:
    """Return a number with three significant digits, without an exponent for everyday sizes."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-3 else f"{value:.2e}"


def _svg(children: Iterable[Markup], width: float, height: float, title: str) -> Markup:
    return el(
        "div",
        el(
            "svg", el("title", title), list(children),
            viewBox=f"0 0 {width:.0f} {height:.0f}", width=f"{width:.0f}", height=f"{height:.0f}", role="img",
        ),
        class_="figure",
    )  # fmt: skip


def _short(text: str) -> str:
    text = " ".join(clean(text).split())
    return text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 1] + "\u2026"
