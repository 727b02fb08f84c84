"""The IR under construction: a current value, the arrays it comes from, and every choice with its reason."""

from dataclasses import dataclass, field
from typing import Any

from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.state.names import FLOATS, ITEM_BYTES
from cuda_harness.tools.formula.functions import FUNCTIONS, meaning_of
from cuda_harness.tools.formula.nodes import (
    Access,
    Binary,
    Call,
    Name,
    Node,
    Num,
    Reduce,
    Reducer,
    Statement,
    accesses,
    free_variables,
    show_statement,
    walk,
)

Axis = tuple[str, str]
"""Index variable and dim."""


@dataclass
class Recipe:
    """What a plan is made of; the current value is an expression over the current axes."""

    dtype: str
    dims: dict[str, int] = field(default_factory=dict)
    fixed: bool = False
    minimum: dict[str, int] = field(default_factory=dict)
    tensors: list[dict[str, Any]] = field(default_factory=list)
    intermediates: list[dict[str, Any]] = field(default_factory=list)
    scalars: list[dict[str, Any]] = field(default_factory=list)
    statements: list[tuple[str, Statement]] = field(default_factory=list)
    assumptions: list[dict[str, str]] = field(default_factory=list)
    edge_rules: list[str] = field(default_factory=list)
    constraints: list[str] = field(default_factory=list)
    value: Node = field(default_factory=lambda: Num(0.0, "0"))
    axes: tuple[Axis, ...] = ()
    words: list[str] = field(default_factory=list)
    """Names of the operations in order, for the name of the IR."""

    # ------------------------------------------------------------------ what exists
    @property
    def real(self) -> str:
        """Dtype of values between steps: as sums are kept."""
        return (
            self.dtype
            if self.dtype in {"float64", "int64"}
            else ("float32" if self.dtype in FLOATS else "int64")
        )

    @property
    def is_integer(self) -> bool:
        """Whether the data are integers."""
        return self.dtype not in FLOATS

    def names(self) -> set[str]:
        """Return every name in use."""
        return {*self.dims, *(t["name"] for t in self.tensors), *(i["name"] for i in self.intermediates),
                *(s["name"] for s in self.scalars), *(v for v, _ in self.axes)}  # fmt: skip

    def fresh(self, wanted: str) -> str:
        """Return `wanted`, numbered if it is taken."""
        name, number = wanted, 2
        while name in self.names():
            name, number = f"{wanted}{number}", number + 1
        return name

    def assume(self, what: str, value: object, why: str) -> None:
        """Record a choice that the request left open."""
        entry = {"what": what, "value": str(value), "why": why}
        if entry not in self.assumptions:
            self.assumptions.append(entry)

    # ------------------------------------------------------------------ arrays
    def input(self, name: str, axes: tuple[Axis, ...], dtype: str = "", description: str = "") -> Node:
        """Declare an input over `axes` and return its element."""
        name = self.fresh(name)
        entry: dict[str, Any] = {
            "name": name,
            "role": "in",
            "dtype": dtype or self.dtype,
            "shape": [d for _, d in axes],
        }
        if description:
            entry["description"] = description
        self.tensors.append(entry)
        return Access(name, tuple(Name(v) for v, _ in axes)) if axes else Name(name)

    def scalar(
        self, name: str, value: float, low: float, high: float, *, stated: bool, why: str = ""
    ) -> Node:
        """Declare a scalar that tests vary, and return it."""
        name = self.fresh(name)
        dtype = "float64" if self.dtype == "float64" else ("float32" if self.dtype in FLOATS else "int32")
        if dtype == "int32":
            value, low, high = int(value), int(low), int(high)
        self.scalars.append({"name": name, "dtype": dtype, "value": value, "low": low, "high": high,
                             "source": "stated" if stated else "assumed", "why": why})  # fmt: skip
        return Name(name)

    def save(
        self,
        wanted: str,
        op: str,
        *,
        dtype: str = "",
        value: Node | None = None,
        axes: tuple[Axis, ...] | None = None,
    ) -> Node:
        """Write a value to an intermediate of its own and return its element."""
        axes = self.axes if axes is None else axes
        name = self.fresh(wanted)
        self.intermediates.append({"name": name, "dtype": dtype or self.real, "shape": [d for _, d in axes]})
        self.statements.append(
            (op, Statement(name, tuple(v for v, _ in axes), self.value if value is None else value))
        )
        return Access(name, tuple(Name(v) for v, _ in axes)) if axes else Name(name)

    def settle(self) -> None:
        """Give the current value a place of its own when it holds a reduction, so that it is not computed again."""
        if any(isinstance(n, Reduce) for n in walk(self.value)):
            self.value = self.save("t", "compute")

    # ------------------------------------------------------------------ operations on the current value
    def apply(self, function: str, *args: Node) -> None:
        """Apply a function element by element."""
        if self.is_integer and not FUNCTIONS[function].c_int:
            msg = f"{function} of integers has no integer result; name a floating-point type"
            raise Refusal(msg)
        repeated = FUNCTIONS[function].meaning.count("x") > 1
        if repeated and sum(isinstance(n, Reduce) for n in walk(self.value)) > 1:
            self.settle()
        self.value = Call(function, (self.value, *args))

    def reduce(self, kind: Reducer, over: tuple[Axis, ...], value: Node | None = None) -> Node:
        """Return the reduction of `value` (default: the current one) over some axes."""
        return Reduce(kind, tuple(v for v, _ in over), self.value if value is None else value)

    # ------------------------------------------------------------------ the end
    def finish(
        self, output: str, *, dtype: str = "", compare: dict[str, Any] | None = None, op: str = ""
    ) -> None:
        """Write the current value to an output tensor."""
        name = self.fresh(output)
        self.tensors.append({"name": name, "role": "out", "dtype": dtype or self.dtype, "shape": [d for _, d in self.axes],
                             **({"compare": compare} if compare else {})})  # fmt: skip
        self.statements.append((op or "compute", Statement(name, tuple(v for v, _ in self.axes), self.value)))

    def ir(self, *, name: str, summary: str) -> dict[str, Any]:
        """Return the IR as JSON data."""
        for function in sorted(
            {n.name for _, s in self.statements for n in walk(s.value) if isinstance(n, Call)}
        ):
            told = meaning_of(function)
            if told is not None:
                self.edge_rules.append(told)
        dims = [
            {"name": n, "value": v, "min": self.minimum.get(n, 1), **({"fixed": True} if self.fixed else {})}
            for n, v in self.dims.items()
        ]
        return {
            "schema": "cuda-harness/ir/1", "name": name, "summary": summary[:400], "dims": dims,
            "constraints": self.constraints, "tensors": self.tensors, "intermediates": self.intermediates,
            "scalars": self.scalars, "steps": [self._step(n, op, s) for n, (op, s) in enumerate(self.statements)],
            "edge_rules": self.edge_rules,
            "numerics": {"precision": "strict", "nonfinite": "forbid", "deterministic": False, "fast_math": False},
            "cost": self._cost(), "mapping": {"notes": "", "bound": "compute" if self._is_product() else "memory"},
            "assumptions": self.assumptions,
        }  # fmt: skip

    def _step(self, number: int, op: str, statement: Statement) -> dict[str, Any]:
        known = (
            {t["name"] for t in self.tensors}
            | {i["name"] for i in self.intermediates}
            | {s["name"] for s in self.scalars}
        )
        read = [n.name for n in walk(statement.value) if isinstance(n, Access | Name) and n.name in known]
        return {"id": f"{op}_{number}" if number else op, "op": op, "reads": list(dict.fromkeys(read)), "writes": [statement.target],
                "formula": show_statement(statement)}  # fmt: skip

    def _is_product(self) -> bool:
        return any(isinstance(n, Reduce) and n.kind == "sum" and len({a.name for a in accesses(n.body)}) > 1 and len(s.indices) > 1
                   for _, s in self.statements for n in walk(s.value))  # fmt: skip

    def _cost(self) -> dict[str, str]:
        shapes = {t["name"]: t["shape"] for t in (*self.tensors, *self.intermediates)}
        flops: dict[str, int] = {}
        for _, statement in self.statements:
            extents = dict(zip(statement.indices, shapes[statement.target], strict=True))
            for access in accesses(statement.value):
                for index, size in zip(access.indices, shapes[access.name], strict=True):
                    if isinstance(index, Name):
                        extents.setdefault(index.name, size)
            _count(statement.value, extents, flops)
        moved = []
        for tensor in self.tensors:
            times = ITEM_BYTES[tensor["dtype"]] * (2 if tensor["role"] == "inout" else 1)
            moved.append("*".join([str(times), *(_factor(s) for s in tensor["shape"])]))
        counted = " + ".join("*".join([str(n), *([space] if space else [])]) for space, n in flops.items())
        return {"flops": counted or "0", "bytes": " + ".join(moved)}


def _factor(size: str) -> str:
    return size if size.replace("_", "a").isalnum() else f"({size})"


def _count(node: Node, extents: dict[str, str], flops: dict[str, int]) -> None:
    """Add the operations of a formula, each over the indices that it depends on: what stays the same is computed once."""
    variables = frozenset(extents)
    for part in walk(node):
        own = FUNCTIONS[part.name].flops if isinstance(part, Call) else int(isinstance(part, Binary | Reduce))
        if not own:
            continue
        needed = free_variables(part, variables)
        if isinstance(part, Reduce) and part.bound is None:
            needed |= frozenset(part.variables) & variables
        space = "*".join(_factor(extents[v]) for v in extents if v in needed)
        flops[space] = flops.get(space, 0) + own


def number(value: float) -> Num:
    """Return a constant as a formula writes it; negative ones are written with a minus by the caller."""
    text = str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)
    return Num(value, text)
