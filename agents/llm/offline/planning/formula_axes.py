"""The index variables of formulas: which of them run over one axis, and how long each axis is."""

import re
from typing import Any

from cuda_harness.agents.llm.offline.planning.details import Details
from cuda_harness.agents.llm.offline.planning.formula_forms import reversed_index
from cuda_harness.agents.llm.offline.planning.formulas import Formulas
from cuda_harness.agents.llm.offline.planning.recipe import Recipe
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.agents.llm.offline.planning.shapes import SIDE, VECTOR
from cuda_harness.agents.llm.offline.planning.sizes import Sizes
from cuda_harness.tools.formula.nodes import (
    Access,
    Name,
    Reduce,
    accesses,
    bound_variables,
    walk,
)


class FormulaAxes:
    """What a set of formulas says about axes, step by step: variables, dims, shapes of the arrays."""

    def __init__(self, recipe: Recipe, sizes: Sizes, details: Details, formulas: Formulas, rest: str) -> None:
        self.recipe, self.sizes, self.details, self.formulas = recipe, sizes, details, formulas
        self.rest = rest
        self.statements = formulas.statements
        self.dims_of: dict[str, str] = {}
        """Index variable -> dim."""
        self.ranks: dict[str, tuple[str, ...]] = {}
        """Array -> dims of its axes."""
        self.used: set[str] = set()
        """Parameters that found a place."""

    def check_variables(self) -> None:
        """Refuse index variables that come from nowhere, and neighbours such as x[i+1]."""
        for statement in self.statements:
            known = set(statement.indices) | bound_variables(statement.value)
            for access in accesses(statement.value):
                for index in access.indices:
                    loose = [n.name for n in walk(index) if isinstance(n, Name) and n.name not in known]
                    if isinstance(index, Name) and loose:
                        msg = f"index {loose[0]!r} stands only on the right of the formula for {statement.target!r}; write sum_{loose[0]} if it is summed over"
                        raise Refusal(msg)
                    if not isinstance(index, Name | Access) and reversed_index(index, known) is None:
                        msg = "neighbours such as x[i+1] are not among the templates (only plain indices, n-1-i and index arrays)"
                        raise Refusal(msg)

    def extents(self) -> None:
        """Give a dim to every index variable, and its dims to every array."""
        variables = list(
            dict.fromkeys(v for s in self.statements for v in (*s.indices, *sorted(bound_variables(s.value))))
        )
        if not self.dims_of:
            scans = {
                n.variables[0]: n.bound[1]
                for s in self.statements
                for n in walk(s.value)
                if isinstance(n, Reduce) and n.bound
            }
            free = [v for v in variables if v not in scans]
            free = self._united(free)
            names = {1: ("n",), 2: ("rows", "cols")}.get(len(free), tuple(f"n_{v.lower()}" for v in free))
            if len(free) == 3 and self._is_product(free):
                names = ("m", "n", "k")
            for variable, name in zip(free, names, strict=True):
                self.dims_of[variable] = name
            for variable, root in self._roots.items():
                self.dims_of[variable] = self.dims_of[root]
            for variable, along in scans.items():
                self.dims_of[variable] = self.dims_of[along]
            self._values(free)
        for statement in self.statements:
            self.ranks.setdefault(statement.target, tuple(self.dims_of[v] for v in statement.indices))
        for statement in self.statements:
            for access in accesses(statement.value):
                self._rank(access)

    def _united(self, variables: list[str]) -> list[str]:
        """Return one variable for each axis: two that index the same axis of one array run over the same dim."""
        self._roots: dict[str, str] = {}
        first: dict[tuple[str, int], str] = {}

        def root(v: str) -> str:
            while v in self._roots:
                v = self._roots[v]
            return v

        order = {v: n for n, v in enumerate(variables)}
        uses = [(s.target, n, v) for s in self.statements for n, v in enumerate(s.indices)]
        uses += [
            (a.name, n, i.name)
            for s in self.statements
            for a in accesses(s.value)
            for n, i in enumerate(a.indices)
            if isinstance(i, Name)
        ]
        for name, axis, variable in uses:
            if variable not in order:
                continue
            known, own = root(first.setdefault((name, axis), variable)), root(variable)
            if known != own:
                keep, drop = sorted((known, own), key=order.__getitem__)
                self._roots[drop] = keep
        self._roots = {v: root(v) for v in self._roots}
        return [v for v in variables if v not in self._roots]

    def _is_product(self, free: list[str]) -> bool:
        last = self.statements[-1]
        return len(last.indices) == 2 and list(last.indices) == free[:2]

    def _rank(self, access: Access) -> None:
        dims: list[str] = []
        known = self.ranks.get(access.name)
        for axis, index in enumerate(access.indices):
            if isinstance(index, Name):
                dims.append(self.dims_of[index.name])
            elif isinstance(index, Access):
                fallback = known[axis] if known and axis < len(known) else self._axis_of(access.name, axis)
                dims.append(fallback)
            else:
                variable = reversed_index(index, set(self.dims_of))
                dims.append(self.dims_of[variable or ""])
        if known is not None and known != tuple(dims):
            msg = f"{access.name!r} is indexed in two ways that do not fit together"
            raise Refusal(msg)
        self.ranks[access.name] = tuple(dims)

    def _axis_of(self, name: str, axis: int) -> str:
        for statement in self.statements:
            for other in accesses(statement.value):
                index = other.indices[axis] if other.name == name and axis < len(other.indices) else None
                if isinstance(index, Name):
                    return self.dims_of[index.name]
        own = f"{name.lower()}_{axis}" if axis else f"{name.lower()}_rows"
        if own not in self.recipe.dims:
            self.recipe.dims[own] = SIDE
            self.recipe.assume(
                f"size {own}", SIDE, "nothing in the request says how long the indexed axis is"
            )
        return own

    def _values(self, free: list[str]) -> None:
        values: dict[str, int] = {}

        def put(dim: str, value: int | None, what: str) -> None:
            if value is None:
                return
            if values.setdefault(dim, value) != value:
                msg = f"the sizes contradict each other: {what} makes {dim} {value}, and it is {values[dim]} elsewhere"
                raise Refusal(msg)

        self._by_shapes(put)
        dims = [self.dims_of[v] for v in free]
        named = dict(self.sizes.named)
        for name, value in named.items():
            dim = self.dim_called(name, free)
            if dim is not None:
                self.sizes.used_names.add(name)
                put(dim, value, f"{name} = {value}")
        for name, value in self.formulas.sizes.items():
            put(self.dims_of[name], value, f"{name} = {value}")
        rows, cols = (
            self.sizes.count("rows", "samples"),
            self.sizes.count("cols", "features", "classes", "channels"),
        )
        length = self.sizes.count("length")
        elements = self.sizes.count("elements")
        batch = self.sizes.count("batch")
        if len(dims) == 1:
            for stated in (length, elements, rows, cols):
                put(dims[0], stated, "a stated size")
        else:
            for dim, stated in (("rows", rows), ("cols", cols), ("batch", batch)):
                if stated is not None and dim in dims:
                    put(dim, stated, f"{stated} {dim}")
                elif stated is not None:
                    msg = (
                        f"it is not clear which index has the {stated} {dim}; state the shapes of the arrays"
                    )
                    raise Refusal(msg)
            if length is not None:
                for dim in dims:
                    put(dim, length, f"size {length}")
            if elements is not None:
                total = 1
                for dim in dims:
                    total *= values.get(dim, 0)
                if total != elements:
                    msg = f"it is not clear how {elements} elements are laid out over {len(dims)} indices; state the shapes"
                    raise Refusal(msg)
        twice = any(len(r) != len(set(r)) for r in self._index_dims())
        default = VECTOR if len(dims) == 1 and not twice else (SIDE if len(dims) <= 2 else 128)
        for dim in dims:
            if dim not in values:
                self.recipe.assume(
                    f"size {dim}", default, "the request names no size; the kernel is right for any"
                )
            self.recipe.dims[dim] = values.get(dim, default)

    def _index_dims(self) -> list[list[str]]:
        """Return the dims of the plain indices of every array."""
        rows = [[*s.indices] for s in self.statements]
        rows += [
            [i.name for i in a.indices if isinstance(i, Name)]
            for s in self.statements
            for a in accesses(s.value)
        ]
        return [[self.dims_of[v] for v in row] for row in rows]

    def _by_shapes(self, put: Any) -> None:  # noqa: ANN401 - a local function
        order = self.arrays_in_order()
        left = list(order)
        for number, shape in enumerate(self.sizes.shapes):
            rank = len(shape.sizes)
            named = self._name_beside(number)
            fitting = [a for a in left if len(self._variables_of(a)) == rank]
            chosen = (
                named
                if named in order and len(self._variables_of(named)) == rank
                else (fitting[0] if fitting else None)
            )
            if chosen is None:
                again = [a for a in order if len(self._variables_of(a)) == rank]
                if len(again) != 1:
                    msg = f"there is no array in the formula for the shape {shape.text!r}"
                    raise Refusal(msg)
                chosen = again[0]
            if chosen in left:
                left.remove(chosen)
            shape.used = True
            for variable, size in zip(self._variables_of(chosen), shape.sizes, strict=True):
                if variable:
                    put(self.dims_of[variable], self.sizes.value(size), f"the shape {shape.text}")

    def _name_beside(self, number: int) -> str:
        """Return the array whose name stands before a stated shape: `a is 512 x 256`, `matrix a (512 x 256)`."""
        mark = f"\N{LEFT WHITE SQUARE BRACKET}shape{number}\N{RIGHT WHITE SQUARE BRACKET}"
        between = r"(?:(?: is| are| has| have| being| of|:| with| an?| the| shape| size| dimensions| matrix| vector| array| tensor| both)*)"
        names = {a.lower(): a for a in self.arrays_in_order()}
        beside = [m[1] for m in re.finditer(rf"\b(\w+){between} ?{mark}", self.rest)]
        return next((names[n] for n in beside if n in names), "")

    def arrays_in_order(self) -> list[str]:
        """Return the arrays in the order in which the formulas name them."""
        targets = {s.target for s in self.statements}
        read = [a.name for s in self.statements for a in accesses(s.value)]
        return list(
            dict.fromkeys([*(n for n in read if n not in targets), *(s.target for s in self.statements)])
        )

    def _variables_of(self, name: str) -> tuple[str, ...]:
        for statement in self.statements:
            if statement.target == name:
                return statement.indices
            for access in accesses(statement.value):
                if access.name == name:
                    return tuple(i.name if isinstance(i, Name) else "" for i in access.indices)
        return ()

    def dim_called(self, name: str, free: list[str]) -> str | None:
        """Return the dim that a name means, `None` when it means none."""
        dims = [self.dims_of[v] for v in free]
        if name in dims:
            return name
        if name in free:
            return self.dims_of[name]
        if len(dims) == 1:
            return dims[0]
        if dims == ["rows", "cols"] and name in {"m", "n"} and {"m", "n"} >= set(self.sizes.named):
            return dims[0] if name == "m" else dims[1]
        return None
