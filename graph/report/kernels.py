"""The parts of a report that show kernels: the IR as a graph, source, times, lineage with differences."""

from collections import defaultdict
from collections.abc import Mapping

from markupsafe import Markup

from cuda_harness.graph.report.drawing import Arrow, Bar, Box, Tone, bars, layered, quantity
from cuda_harness.graph.report.evidence import AttemptEvidence, Document, Evidence
from cuda_harness.graph.report.highlight import code, difference
from cuda_harness.graph.report.markup import el, facts, fold, join, table
from cuda_harness.graph.report.sections import failure, ladder
from cuda_harness.state.expr import Expr
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import Timing
from cuda_harness.tools.trace.tree import seconds, tokens

_TONES: dict[str, Tone] = {"verified": "good", "rejected": "bad", "undecided": "mute", "unusable": "bad"}


def ir_graph(ir: KernelIR) -> Markup:
    """Return the IR's data flow: inputs and scalars, steps, outputs; intermediates stand on the arrows."""
    boxes = [
        Box(f"in {t.name}", (t.name, f"{t.dtype}[{', '.join(map(str, t.shape))}]"), "input")
        for t in ir.inputs
    ]
    read = {name for step in ir.steps for name in step.reads}
    boxes += [
        Box(f"in {s.name}", (s.name, f"{s.dtype} = {s.value}"), "scalar")
        for s in ir.scalars
        if s.name in read
    ]
    boxes += [Box(f"step {s.id}", (s.op, s.formula) if s.formula else (s.op,), "step") for s in ir.steps]
    boxes += [
        Box(f"out {t.name}", (t.name, f"{t.dtype}[{', '.join(map(str, t.shape))}]"), "output")
        for t in ir.outputs
    ]
    made: dict[str, str] = {}
    arrows = []
    for step in ir.steps:
        for name in step.reads:
            source = made.get(name)
            arrows.append(Arrow(source or f"in {name}", f"step {step.id}", name if source else ""))
        made.update(dict.fromkeys(step.writes, f"step {step.id}"))
    arrows += [Arrow(made[t.name], f"out {t.name}") for t in ir.outputs if t.name in made]
    return layered(boxes, arrows, title=f"data flow of {ir.name}")


def ir_section(run: Evidence) -> Markup | None:
    """Return the IR: its graph, sizes, tensors and rules."""
    ir = run.ir
    if ir is None:
        return None
    sizes = [
        (d.name, d.value, "fixed" if d.fixed else f"{d.min} to {d.max if d.max is not None else 'any'}", _rules(d.multiple_of, d.power_of_two))
        for d in ir.dims
    ]  # fmt: skip
    tensors = [
        (t.name, t.role, t.dtype, f"[{', '.join(map(str, t.shape))}]", t.compare.mode if t.compare else "") for t in ir.tensors
    ]  # fmt: skip
    scalars = [(s.name, s.dtype, s.value, "fixed" if s.fixed else _range(s.low, s.high)) for s in ir.scalars]
    return join(
        el("p", ir.summary) if ir.summary else None,
        ir_graph(ir),
        table(("size", "timed at", "right for", ""), list(sizes), numeric=(1,)),
        table(("tensor", "role", "type", "shape", "compared"), list(tensors)),
        table(("scalar", "type", "value", "varied"), list(scalars), numeric=(2,)),
        facts([
            ("constraints", "; ".join(map(str, ir.constraints))), ("edge rules", "; ".join(ir.edge_rules)),
            ("arithmetic", ir.numerics.precision.replace("_", " ")), ("infinities and NaN", ir.numerics.nonfinite),
            ("work", f"{_cost(ir.cost.flops)} operations, {_cost(ir.cost.bytes)} bytes"), ("bound by", ir.mapping.bound),
        ]),
    )  # fmt: skip


def kernel_section(run: Evidence) -> Markup | None:
    """Return source and plan of the shown kernel."""
    shown = run.shown
    if shown is None or not shown.source:
        return None
    delivered = run.result.get("kernel") is not None
    return join(
        None
        if delivered
        else el("p", "No kernel was delivered; this is the attempt that came furthest.", class_="soft"),
        code(shown.source, "cuda"),
        fold("launch plan", code(shown.plan, "json")) if shown.plan else None,
    )


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
        el("p", "No more was measured: ", profile.reason, class_="soft")
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


def lineage_graph(attempts: tuple[AttemptEvidence, ...]) -> Markup:
    """Return the attempts as a graph from parent to child, coloured by status."""
    boxes = []
    for a in attempts:
        how = (
            f"{quantity(a.timing.median_us)} \u00b5s"
            if a.timing
            else (a.failure_class or "").replace("_", " ")
        )
        boxes.append(
            Box(str(a.id), (f"#{a.id} {a.strategy}", f"{a.status}{': ' + how if how else ''}"), a.status)
        )
    arrows = [Arrow(str(a.parent), str(a.id)) for a in attempts if a.parent is not None]
    return layered(boxes, arrows, title="attempts from parent to child")


def attempts_section(run: Evidence) -> Markup | None:
    """Return the lineage, and for each attempt its failure, its ladder and the difference to its parent."""
    if not run.attempts:
        return None
    by_id = {a.id: a for a in run.attempts}
    return join(
        lineage_graph(run.attempts),
        [_attempt(a, by_id.get(a.parent) if a.parent is not None else None) for a in run.attempts],
    )


def rounds_section(run: Evidence) -> Markup | None:
    """Return each branch of each round: what it tried and why, what came of it, and whether it was kept."""
    rows = [r for r in run.result.get("branches") or [] if isinstance(r, Mapping)]
    kept = el("b", "kept", class_="good")
    return table(
        ("round", "idea", "of", "from", "why", "attempts", "as fast", "outcome"),
        [
            (
                str(r.get("round")), str(r.get("strategy") or ""), str(r.get("by") or ""), f"#{r.get('parent')}", str(r.get("why") or ""),
                ", ".join(f"#{a}" for a in r.get("attempts") or []), _ratio(r), join(kept if r.get("kept") else "not kept", ": ", str(r.get("reason") or "")),
            )
            for r in rows
        ],
        numeric=(0,),
    )  # fmt: skip


def _ratio(row: Document) -> str:
    """Return how many times as fast a branch's kernel is as the one it challenged, with its interval."""
    ratio, interval = row.get("ratio"), row.get("ci95")
    if not isinstance(ratio, (int, float)):
        return "not measured"
    spread = (
        f" ({interval[0]:.3f} to {interval[1]:.3f})"
        if isinstance(interval, (list, tuple)) and len(interval) == 2
        else ""
    )
    return f"{ratio:.3f}x{spread}"


def _attempt(attempt: AttemptEvidence, parent: AttemptEvidence | None) -> Markup:
    parts: list[Markup | None] = []
    if attempt.verdict is not None:
        parts += [
            failure(attempt.verdict.failure) if attempt.verdict.failure else None,
            ladder(attempt.verdict),
        ]
    if parent is not None and parent.source and attempt.source:
        names = (f"#{parent.id}/kernel.cu", f"#{attempt.id}/kernel.cu")
        parts.append(
            difference(parent.source, attempt.source, old_name=names[0], new_name=names[1])
            or el("p", f"The source is that of #{parent.id}.", class_="soft")
        )
        parts.append(
            difference(
                parent.plan or "",
                attempt.plan or "",
                old_name=f"#{parent.id}/plan.json",
                new_name=f"#{attempt.id}/plan.json",
            )
        )
    elif attempt.source:
        parts.append(fold("kernel", code(attempt.source, "cuda")))
    if not any(parts):
        parts.append(el("p", "The reply held no kernel.", class_="soft"))
    of = f" from #{parent.id}" if parent is not None else ""
    word = (attempt.failure_class or "").replace("_", " ")
    title = f"#{attempt.id} {attempt.strategy}{of}: {attempt.status}{': ' + word if word else ''}"
    return fold(title, parts)


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


def _rules(multiple_of: int, power_of_two: bool) -> str:
    found = [f"multiples of {multiple_of}"] if multiple_of > 1 else []
    return ", ".join(found + (["powers of two"] if power_of_two else []))


def _cost(work: Expr) -> str:
    return "unknown" if work.constant == 0 else str(work)


def _range(low: object, high: object) -> str:
    return f"{low if low is not None else 'any'} to {high if high is not None else 'any'}"
