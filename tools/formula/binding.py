"""Formulas bound to an IR: the extent of every index variable, and what each name is."""

from dataclasses import dataclass
from functools import cached_property

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import FLOATS
from cuda_harness.tools.formula.nodes import (
    Access,
    Name,
    Node,
    Reduce,
    Statement,
    accesses,
    bound_variables,
    walk,
)
from cuda_harness.tools.formula.parse import FormulaError, parse_statement


@dataclass(frozen=True)
class Array:
    """A tensor or an intermediate as formulas see it."""

    name: str
    dtype: str
    shape: tuple[str, ...]
    """Axis lengths as expressions over dims."""
    kind: str
    """`in`, `out`, `inout` or `intermediate`."""


@dataclass(frozen=True)
class Bound:
    """One statement and the extent of each of its index variables."""

    statement: Statement
    extents: dict[str, str]

    @property
    def variables(self) -> frozenset[str]:
        """All index variables."""
        return frozenset(self.extents)

    @property
    def shape(self) -> tuple[str, ...]:
        """Extents of the left side."""
        return tuple(self.extents[v] for v in self.statement.indices)


class Problem:
    """An IR whose formulas are parsed and bound."""

    def __init__(self, ir: KernelIR) -> None:
        """Parse and bind every step.

        Raises:
            FormulaError: If a formula is missing, not of the language, or does not fit the declared shapes.
        """
        self.ir = ir
        self.arrays: dict[str, Array] = {
            t.name: Array(t.name, t.dtype, tuple(e.text for e in t.shape), t.role) for t in ir.tensors
        }
        for item in ir.intermediates:
            shape = tuple(e.text for e in item.shape)
            self.arrays[item.name] = Array(item.name, item.dtype, shape, "intermediate")
        self.scalars = {s.name: s for s in ir.scalars}
        self.dims = {d.name for d in ir.dims}
        self.bound: list[Bound] = []
        for step in ir.steps:
            if not step.formula:
                msg = f"step {step.id!r} has no formula"
                raise FormulaError(msg)
            self.bound.append(self.bind(parse_statement(step.formula)))
        if not self.bound:
            msg = "the IR has no steps"
            raise FormulaError(msg)

    def bind(self, statement: Statement) -> Bound:
        """Return the statement with its extents; raises FormulaError."""
        target = self.array(statement.target)
        if len(target.shape) != len(statement.indices):
            msg = f"{target.name!r} has {len(target.shape)} axes, the formula gives {len(statement.indices)} indices"
            raise FormulaError(msg)
        extents = dict(zip(statement.indices, target.shape, strict=True))
        reduced = bound_variables(statement.value)
        if reduced & set(extents):
            msg = f"index {min(reduced & set(extents))!r} is bound twice in the formula for {target.name!r}"
            raise FormulaError(msg)
        self._collect(statement.value, extents, reduced)
        for node in walk(statement.value):
            if isinstance(node, Reduce) and node.bound is not None and node.bound[1] in extents:
                extents.setdefault(node.variables[0], extents[node.bound[1]])
        for variable in reduced:
            if variable not in extents:
                msg = f"nothing says how far index {variable!r} runs in the formula for {target.name!r}"
                raise FormulaError(msg)
        bound = Bound(statement, extents)
        self._check_names(bound)
        return bound

    def _collect(self, value: Node, extents: dict[str, str], reduced: frozenset[str]) -> None:
        for access in accesses(value):
            array = self.array(access.name)
            if len(array.shape) != len(access.indices):
                msg = f"{array.name!r} has {len(array.shape)} axes, the formula gives {len(access.indices)} indices"
                raise FormulaError(msg)
            for index, extent in zip(access.indices, array.shape, strict=True):
                if not isinstance(index, Name) or (index.name not in reduced and index.name not in extents):
                    continue
                known = extents.setdefault(index.name, extent)
                if known != extent:
                    msg = f"index {index.name!r} runs over {known} and over {extent}"
                    raise FormulaError(msg)

    def _check_names(self, bound: Bound) -> None:
        for node in walk(bound.statement.value):
            if not isinstance(node, Name) or node.name in bound.extents:
                continue
            if node.name in self.scalars or node.name in self.dims:
                continue
            array = self.arrays.get(node.name)
            if array is None:
                msg = f"{node.name!r} is neither a tensor, a scalar, a dim nor an index of the IR"
                raise FormulaError(msg)
            if array.shape not in {(), ("1",)}:
                msg = f"{node.name!r} is an array and needs indices"
                raise FormulaError(msg)

    def array(self, name: str) -> Array:
        """Return the tensor or intermediate; raises FormulaError."""
        try:
            return self.arrays[name]
        except KeyError as exc:
            msg = f"{name!r} is no tensor of the IR"
            raise FormulaError(msg) from exc

    def is_float(self, name: str) -> bool:
        """Whether the array or scalar holds floating-point numbers."""
        if name in self.scalars:
            return self.scalars[name].dtype in FLOATS
        return name in self.arrays and self.arrays[name].dtype in FLOATS

    def type_of(self, bound: Bound) -> str:
        """Return how a statement computes: `float64`, `float32`, or `int64` when everything in it is an integer."""
        arrays = {a.name for a in accesses(bound.statement.value)} | {bound.statement.target}
        names = {n.name for n in walk(bound.statement.value) if isinstance(n, Name)}
        values = {
            *(self.arrays[a].dtype for a in (arrays | names) & set(self.arrays) - self.indices_only(bound)),
            *(self.scalars[n].dtype for n in names & set(self.scalars)),
        }
        if "float64" in values:
            return "float64"
        return "float32" if values & FLOATS else "int64"

    @staticmethod
    def indices_only(bound: Bound) -> frozenset[str]:
        """Return the arrays that occur only inside indices."""
        inside = {n.name for a in accesses(bound.statement.value) for i in a.indices for n in accesses(i)}
        outside = {a.name for a in _outer(bound.statement.value)}
        return frozenset(inside - outside - {bound.statement.target})

    @cached_property
    def definitions(self) -> dict[str, Bound]:
        """The statement that writes each array."""
        return {b.statement.target: b for b in self.bound}


def _outer(node: Node) -> list[Access]:
    if isinstance(node, Access):
        return [node]
    from cuda_harness.tools.formula.nodes import children

    return [a for child in children(node) for a in _outer(child)]
