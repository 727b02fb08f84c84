"""The parts of a report that show kernels: the IR as a graph, source, lineage with differences, rounds."""

from collections.abc import Mapping

from markupsafe import Markup

from cuda_harness.graph.report.drawing import Arrow, Box, layered, quantity
from cuda_harness.graph.report.evidence import AttemptEvidence, Document, Evidence
from cuda_harness.graph.report.highlight import code, difference
from cuda_harness.graph.report.markup import el, facts, fold, join, table
from cuda_harness.graph.report.sections import failure, ladder
from cuda_harness.state.expr import Expr
from cuda_harness.state.ir import KernelIR


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


def _rules(multiple_of: int, power_of_two: bool) -> str:
    found = [f"multiples of {multiple_of}"] if multiple_of > 1 else []
    return ", ".join(found + (["powers of two"] if power_of_two else []))


def _cost(work: Expr) -> str:
    return "unknown" if work.constant == 0 else str(work)


def _range(low: object, high: object) -> str:
    return f"{low if low is not None else 'any'} to {high if high is not None else 'any'}"
