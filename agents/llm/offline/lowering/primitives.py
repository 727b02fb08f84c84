"""Statements made simple: every reduction on its own, so that each statement is a map, a reduction or a scan."""

from dataclasses import dataclass, replace

from cuda_harness.tools.formula.binding import Array, Bound, Problem
from cuda_harness.tools.formula.nodes import (
    Access,
    Name,
    Node,
    Reduce,
    Statement,
    free_variables,
    rebuild,
    walk,
)


@dataclass(frozen=True)
class Primitive:
    """One statement with at most one reduction."""

    bound: Bound
    reduction: Reduce | None
    dtype: str
    """How it computes: float32, float64 or int64."""

    @property
    def target(self) -> str:
        """The array it writes."""
        return self.bound.statement.target

    @property
    def outer(self) -> tuple[str, ...]:
        """Index variables of the left side."""
        return self.bound.statement.indices

    @property
    def inner(self) -> tuple[str, ...]:
        """Variables that are reduced."""
        return self.reduction.variables if self.reduction is not None else ()

    @property
    def is_scan(self) -> bool:
        """Whether the reduction runs up to an index of the left side."""
        return self.reduction is not None and self.reduction.bound is not None

    @property
    def outer_extents(self) -> tuple[str, ...]:
        """Shape of the left side."""
        return tuple(self.bound.extents[v] for v in self.outer)

    @property
    def inner_extents(self) -> tuple[str, ...]:
        """Shape of what is reduced."""
        return tuple(self.bound.extents[v] for v in self.inner)


def primitives(problem: Problem) -> list[Primitive]:
    """Return the IR's statements with nested or narrower reductions taken out into values of their own.

    The new values are added to `problem.arrays` as intermediates.
    """
    found: list[Primitive] = []
    for bound in problem.bound:
        _split(problem, bound, found)
    return found


def _split(problem: Problem, bound: Bound, found: list[Primitive]) -> None:
    statement = bound.statement
    reductions = [n for n in walk(statement.value) if isinstance(n, Reduce)]
    dtype = problem.type_of(bound)
    keeps = len(reductions) == 1 and (
        _variables_in_order(reductions[0], bound) == statement.indices
        or (reductions[0].bound is not None and reductions[0] == statement.value)
    )
    if not reductions or keeps:
        found.append(Primitive(bound, reductions[0] if reductions else None, dtype))
        return
    taken: dict[Node, Access | Name] = {}

    def take(node: Node) -> Node:
        node = rebuild(node, take)
        if not isinstance(node, Reduce):
            return node
        if node not in taken:
            taken[node] = _own_value(problem, bound, node, dtype, found)
        return taken[node]

    value = take(statement.value)
    rest = replace(bound, statement=Statement(statement.target, statement.indices, value))
    found.append(Primitive(rest, None, dtype))


def _variables_in_order(node: Reduce, bound: Bound) -> tuple[str, ...]:
    free = free_variables(node, bound.variables)
    known = [v for v in bound.statement.indices if v in free]
    return tuple(known + sorted(free - set(known)))


def _own_value(
    problem: Problem, bound: Bound, node: Reduce, dtype: str, found: list[Primitive]
) -> Access | Name:
    indices = _variables_in_order(node, bound)
    number = sum(name.startswith("part") for name in problem.arrays)
    name = f"part{number}"
    while name in problem.arrays or name in problem.scalars or name in problem.dims:
        name += "_"
    kept = "int64" if node.kind in {"argmax", "argmin"} else dtype
    problem.arrays[name] = Array(name, kept, tuple(bound.extents[v] for v in indices), "intermediate")
    own = Bound(Statement(name, indices, node), bound.extents)
    inner = [n for n in walk(node.body) if isinstance(n, Reduce)]
    if inner:  # cannot be: they were taken out before, from the inside
        msg = "a reduction was left inside another"
        raise AssertionError(msg)
    found.append(Primitive(own, node, dtype))
    return Access(name, tuple(Name(v) for v in indices)) if indices else Name(name)
