"""The IR as a data-flow graph: acyclic, every output produced, every input read, shapes and costs with values."""

from collections.abc import Iterator
from dataclasses import dataclass

import networkx as nx

from cuda_harness.state.expr import Expr, ExprError
from cuda_harness.state.ir import Intermediate, KernelIR, Tensor
from cuda_harness.state.names import INTEGERS

MAX_ELEMENTS = 1 << 40


@dataclass(frozen=True)
class IrFault:
    """One fault of an IR: where, and what to do."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


def step_graph(ir: KernelIR) -> "nx.DiGraph[str]":
    """Return the graph of steps: an edge from the step that writes a name to each step that reads it."""
    graph: nx.DiGraph[str] = nx.DiGraph()
    writers: dict[str, list[str]] = {}
    for step in ir.steps:
        graph.add_node(step.id)
        for name in step.writes:
            writers.setdefault(name, []).append(step.id)
    for step in ir.steps:
        for name in step.reads:
            for writer in writers.get(name, ()):
                if writer != step.id:
                    graph.add_edge(writer, step.id, name=name)
    return graph


def check_ir(ir: KernelIR) -> list[IrFault]:
    """Return every fault of `ir`; an IR without steps is not checked as a graph (bundles written by hand)."""
    return [*_expressions(ir), *_comparisons(ir), *_steps(ir)]


def _expressions(ir: KernelIR) -> Iterator[IrFault]:
    dims = ir.target_dims
    known = set(dims)

    def value(expr: Expr, place: str) -> int | IrFault:
        unknown = sorted(expr.names - known)
        if unknown or expr.kernels:
            return IrFault(
                place,
                f"{expr.text!r} names {', '.join(unknown) or 'a kernel'}; only dims are known here: {sorted(known)}",
            )
        try:
            return expr.evaluate(dims)
        except ExprError as exc:
            return IrFault(place, str(exc))

    items: tuple[Tensor | Intermediate, ...] = (*ir.tensors, *ir.intermediates)
    for item in items:
        count = 1
        for axis, expr in enumerate(item.shape):
            found = value(expr, f"shape of {item.name!r}, axis {axis}")
            if isinstance(found, IrFault):
                yield found
                count = 0
            elif found < 0:
                yield IrFault(f"shape of {item.name!r}", f"axis {axis} is {found} at the target")
            else:
                count *= found
        if count > MAX_ELEMENTS:
            yield IrFault(f"shape of {item.name!r}", f"{count} elements at the target")
    for name, expr in (("flops", ir.cost.flops), ("bytes", ir.cost.bytes)):
        found = value(expr, f"cost.{name}")
        if isinstance(found, IrFault):
            yield found
        elif found < 0:
            yield IrFault(f"cost.{name}", f"is {found} at the target")
    for index, expr in enumerate(ir.constraints):
        found = value(expr, f"constraints[{index}]")
        if isinstance(found, IrFault):
            yield found
        elif not found:
            yield IrFault(f"constraints[{index}]", f"{expr.text!r} does not hold at the target sizes {dims}")


def _comparisons(ir: KernelIR) -> Iterator[IrFault]:
    names = {t.name for t in ir.tensors}
    for tensor in ir.outputs:
        rule = tensor.compare
        if rule is None:
            continue
        if rule.of is not None and rule.of not in names:
            yield IrFault(
                f"compare of {tensor.name!r}", f"`of` names {rule.of!r}; tensors are {sorted(names)}"
            )
        place = f"compare of {tensor.name!r}"
        if rule.mode in {"index", "packed_u8"} and tensor.dtype not in INTEGERS:
            yield IrFault(place, f"mode {rule.mode} needs an integer dtype, not {tensor.dtype}")
        if rule.mode == "index" and rule.ties == "any" and rule.of is None:
            yield IrFault(
                place, "`of` is missing: with ties any, indices are compared by the values that they name"
            )
        if rule.mode == "index" and rule.of in names and rule.axis is not None:
            rank = len(ir.tensor(rule.of).shape)
            if not -rank <= rule.axis < rank:
                yield IrFault(place, f"axis {rule.axis} is no axis of {rule.of!r}, which has {rank}")
        if rule.reduction_length is not None and rule.reduction_length.names - set(ir.target_dims):
            yield IrFault(
                f"compare of {tensor.name!r}", f"reduction_length {rule.reduction_length.text!r} names no dim"
            )


def _steps(ir: KernelIR) -> Iterator[IrFault]:
    if not ir.steps:
        return
    roles = {t.name: t.role for t in ir.tensors}
    scalars = {s.name for s in ir.scalars}
    dims = set(ir.target_dims)
    middle = {i.name for i in ir.intermediates}
    written: dict[str, list[str]] = {}
    read: set[str] = set()
    for step in ir.steps:
        place = f"step {step.id!r}"
        for name in step.reads:
            read.add(name)
            if name not in roles and name not in scalars and name not in middle and name not in dims:
                yield IrFault(place, f"reads {name!r}, which is no tensor, intermediate, scalar or dim")
        for name in step.writes:
            written.setdefault(name, []).append(step.id)
            if name not in roles and name not in middle:
                yield IrFault(place, f"writes {name!r}, which is no tensor or intermediate")
            elif roles.get(name) == "in":
                yield IrFault(place, f"writes {name!r}, whose role is in; use inout or another output")
    for tensor in ir.outputs:
        if tensor.name not in written:
            yield IrFault(f"output {tensor.name!r}", "no step writes it")
    for tensor in ir.inputs:
        if tensor.role == "in" and tensor.name not in read and not tensor.unused:
            yield IrFault(f"input {tensor.name!r}", 'no step reads it; read it, or mark it "unused": true')
    for name in sorted(middle):
        if name in read and name not in written:
            yield IrFault(f"intermediate {name!r}", "is read but never written")
        elif name not in read:
            yield IrFault(f"intermediate {name!r}", "is never read; leave it out")
    for name in sorted(n for n in roles if roles[n] == "out" and n in read and n not in written):
        yield IrFault(f"output {name!r}", "is read before anything writes it")
    graph = step_graph(ir)
    if not nx.is_directed_acyclic_graph(graph):
        cycle = [a for a, _ in nx.find_cycle(graph)]
        yield IrFault("steps", f"are circular: {' -> '.join([*cycle, cycle[0]])}")
