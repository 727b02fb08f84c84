"""The parts of a report that show time: kernels on a device, and where the run's own seconds went."""

from collections import defaultdict

from markupsafe import Markup

from cuda_harness.graph.report.drawing import Bar, Tone, bars, quantity
from cuda_harness.graph.report.evidence import Document, Evidence
from cuda_harness.graph.report.markup import el, facts, fold, join, table
from cuda_harness.state.results import Timing
from cuda_harness.tools.trace.tree import seconds, tokens

_TONES: dict[str, Tone] = {"verified": "good", "rejected": "bad", "undecided": "mute", "unusable": "bad"}


def timing_section(run: Evidence) -> Markup | None:
    """Return times with floor and baseline, or why nothing was timed; and what bounds the kernel."""
    shown = run.shown
    if run.timing is None:
        why = (shown.not_timed if shown else "") or ("no kernel was verified" if shown else "")
        if not why:
            return None
        said: Markup | None = el("p", "Not measured: ", why, ".")
    else:
        said = _timed(run)
    profile = run.profile or (shown.profile if shown else None)
    measured = [(k, quantity(v)) for k, v in profile.metrics.items()] if profile else []
    return join(
        said,
        el("p", el("b", f"bound: {profile.bound}"), f" ({profile.rung}) ", profile.sentence)
        if profile
        else None,
        el("ul", [el("li", line) for line in profile.evidence]) if profile and profile.evidence else None,
        el(
            "p",
            "Counters of CUPTI: " if profile.rung == "cupti" else "No more was measured: ",
            profile.reason,
            class_="soft",
        )
        if profile and profile.reason
        else None,
        fold("figures", facts(list(measured))) if measured else None,
    )


def _timed(run: Evidence) -> Markup:
    timing = run.timing
    assert timing is not None  # noqa: S101 - the caller asked
    marks = {"floor": timing.floor_us} if timing.floor_us else {}
    if timing.speedup_vs_baseline:
        marks["baseline"] = timing.median_us * timing.speedup_vs_baseline
    rows = [
        Bar(f"#{a.id} {a.strategy}", a.timing.median_us, a.timing.ci95_us, _TONES.get(a.status, "plain"))
        for a in run.attempts
        if a.timing is not None
    ] or [Bar("kernel", timing.median_us, timing.ci95_us, "good")]
    rows += [Bar(x.name, x.median_us, x.ci95_us, "mute", note=x.reason) for x in timing.libraries]
    return join(
        bars(rows, unit="\u00b5s", title="time of each attempt, floor and baseline", marks=marks),
        facts([
            ("median", f"{quantity(timing.median_us)} \u00b5s"),
            ("95 % interval", f"{quantity(timing.ci95_us[0])} to {quantity(timing.ci95_us[1])} \u00b5s"),
            ("physical floor", f"{quantity(timing.floor_us)} \u00b5s" if timing.floor_us else "unknown"),
            ("of the speed of light", f"{timing.sol_fraction:.1%}" if timing.sol_fraction else "unknown"),
            ("baseline", timing.baseline or "none"),
            ("speed-up", f"{timing.speedup_vs_baseline:.2f}x" if timing.speedup_vs_baseline else "unknown"),
            ("with warm caches", f"{quantity(timing.warm_us)} \u00b5s" if timing.warm_us else ""),
            ("rate", ", ".join(f"{quantity(v)} {u}" for v, u in ((timing.gb_s, "GB/s"), (timing.gflop_s, "GFLOP/s")) if v)),
            ("disturbed", _disturbed(timing)),
            ("device", timing.device), ("clock", f"{timing.clock_mhz:.0f} MHz" if timing.clock_mhz else "unknown"),
            ("samples", timing.samples), ("notes", "; ".join(timing.notes)),
        ]),
    )  # fmt: skip


def _disturbed(timing: Timing) -> str:
    """Return what else happened on the device while it was timed; empty when nothing is known."""
    told = [
        (timing.throttled, "the clock was held down"),
        (timing.contended, "another process used the device"),
    ]
    return "; ".join(words for known, words in told if known)


def where_time_went(run: Evidence) -> Markup | None:
    """Return seconds by node, tokens by role, and seconds by stage of the ladder."""
    spent = _seconds_by_node(run)
    stages: dict[str, float] = defaultdict(float)
    for attempt in run.attempts:
        for stage in attempt.verdict.stages if attempt.verdict else ():
            if stage.status != "not_measured":
                stages[stage.name] += stage.seconds
    models = [
        (str(r.get("name") or ""), _tokens(r))
        for r in run.trace
        if r.get("run_type") == "llm" and tokens(r) != (None, None)
    ]
    parts = join(
        el("h3", "by node (branches run at once)" if run.result.get("branches") else "by node"), by_node,
    ) if (by_node := bars([Bar(n, s) for n, s in spent.items()], unit="s", title="seconds by node")) else None  # fmt: skip
    ladder_bars = bars(
        [Bar(n, s) for n, s in stages.items()], unit="s", title="seconds by stage of the ladder"
    )
    if parts is None and ladder_bars is None and not models:
        return None
    return join(
        parts,
        join(el("h3", "by stage of the ladder, all attempts"), ladder_bars) if ladder_bars else None,
        table(("model call", "tokens"), list(models), numeric=(1,)),
    )


def _seconds_by_node(run: Evidence) -> dict[str, float]:
    """Return seconds by node; a node that holds others, as a branch does, is not counted beside them."""
    nodes = {
        item.get("id"): item
        for item in run.trace
        if item.get("name") == ((item.get("extra") or {}).get("metadata") or {}).get("langgraph_node")
    }
    parents = {item.get("id"): item.get("parent_run_id") for item in run.trace}
    holders = set()
    for name in nodes:
        step = parents.get(name)
        while step is not None and step not in holders:
            holders.add(step)
            step = parents.get(step)
    spent: dict[str, float] = defaultdict(float)
    for name, item in nodes.items():
        took = seconds(item)
        if took is not None and name not in holders:
            spent[str(item["name"])] += took
    return spent


def _tokens(run: Document) -> str:
    given, made = tokens(run)
    return f"{'?' if given is None else given} in, {'?' if made is None else made} out"
