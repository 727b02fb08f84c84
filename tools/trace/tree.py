"""The trace of a run as a tree for the terminal."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from rich.text import Text
from rich.tree import Tree

Run = Mapping[str, Any]

_STYLES = {"llm": "magenta", "tool": "cyan", "chain": "default"}


def trace_tree(runs: Iterable[Run], *, title: str, keep: Callable[[Run], bool] = lambda _run: True) -> Tree:
    """Return the runs as a tree with seconds and tokens; `keep` filters, ancestors of kept runs stay.

    A node and the graph show the tokens of all model runs below them, also of those that `keep` hides.
    """
    runs = list(runs)
    below = _tokens_below(runs)
    by_id = {r.get("id"): r for r in runs}
    wanted: set[Any] = set()
    for run in runs:
        if not keep(run):
            continue
        step: Run | None = run
        while step is not None and step.get("id") not in wanted:
            wanted.add(step.get("id"))
            step = by_id.get(step.get("parent_run_id"))
    root = Tree(Text(title))
    nodes: dict[Any, Tree] = {}
    for run in runs:
        if run.get("id") not in wanted:
            continue
        parent = nodes.get(run.get("parent_run_id"), root)
        nodes[run.get("id")] = parent.add(_label(run, below.get(run.get("id"), (None, None))))
    return root


def seconds(run: Run) -> float | None:
    """Return how long a run took, `None` when its times are not known."""
    try:
        start = datetime.fromisoformat(str(run["start_time"]))
        end = datetime.fromisoformat(str(run["end_time"]))
    except (KeyError, ValueError):
        return None
    try:
        return (end - start).total_seconds()
    except TypeError:  # one with and one without a time zone: both are UTC in this schema
        return (end.replace(tzinfo=None) - start.replace(tzinfo=None)).total_seconds()


def tokens(run: Run) -> tuple[int | None, int | None]:
    """Return input and output tokens of a model run, `None` where the provider said nothing."""
    metadata = (
        ((run.get("extra") or {}).get("metadata") or {}) if isinstance(run.get("extra"), Mapping) else {}
    )
    usage = metadata.get("usage_metadata") or {}
    if not usage and isinstance(run.get("outputs"), Mapping):
        usage = (run["outputs"] or {}).get("usage_metadata") or {}
    return usage.get("input_tokens"), usage.get("output_tokens")


def _tokens_below(runs: list[Run]) -> dict[Any, tuple[int | None, int | None]]:
    """Return input and output tokens of each run with all below it, `None` where none of them said a number."""
    parents = {r.get("id"): r.get("parent_run_id") for r in runs}
    totals: dict[Any, tuple[int | None, int | None]] = {}
    for run in runs:
        if run.get("run_type") != "llm":
            continue
        step, seen = run.get("id"), set()
        while step is not None and step not in seen:
            seen.add(step)
            totals[step] = _added(totals.get(step, (None, None)), tokens(run))
            step = parents.get(step)
    return totals


def _added(
    a: tuple[int | None, int | None], b: tuple[int | None, int | None]
) -> tuple[int | None, int | None]:
    first, second = (x if y is None else y if x is None else x + y for x, y in zip(a, b, strict=True))
    return first, second


def _label(run: Run, counted: tuple[int | None, int | None]) -> Text:
    kind = _plain(run.get("run_type") or "chain")
    label = Text()
    label.append(_plain(run.get("name") or "?"), style=_STYLES.get(kind, "default"))
    label.append(f"  {kind}", style="dim")
    took = seconds(run)
    if took is not None:
        label.append(f"  {took:.2f} s")
    given, made = counted
    if given is not None or made is not None:
        label.append(
            f"  {'?' if given is None else given} in / {'?' if made is None else made} out", style="dim"
        )
    if run.get("error"):
        label.append("  " + _plain(str(run["error"]).splitlines()[0][:120]), style="red")
    return label


def _plain(text: object) -> str:
    """Return `text` without control characters: a trace may come from anyone, and must not drive the terminal."""
    return "".join(c if c.isprintable() else "?" for c in str(text))
