"""Formulas turned into an IR: which names are dims, inputs, scalars, intermediates and outputs, and how long each axis is."""

import re
from typing import Any

from cuda_harness.agents.llm.offline.language.functions import FUNCTIONS
from cuda_harness.agents.llm.offline.language.nodes import (
    Access,
    Binary,
    Call,
    Name,
    Negate,
    Node,
    Num,
    Reduce,
    Statement,
    accesses,
    bound_variables,
    rebuild,
    substitute,
    walk,
)
from cuda_harness.agents.llm.offline.planning.details import Details
from cuda_harness.agents.llm.offline.planning.formulas import GREEK, SIZE_NAMES, Formulas, is_indexed
from cuda_harness.agents.llm.offline.planning.numbers import REAL
from cuda_harness.agents.llm.offline.planning.recipe import Recipe
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.agents.llm.offline.planning.shapes import SIDE, VECTOR, Shaper
from cuda_harness.agents.llm.offline.planning.sizes import Sizes


class FormulaPlanner:
    """Declares what a set of formulas names: dims, inputs, scalars, intermediates, outputs."""

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

    def plan(self) -> None:
        """Fill the recipe; raises Refusal."""
        self.statements = [Statement(s.target, s.indices, steadied(s.value)) for s in self.statements]
        if not is_indexed(self.formulas):
            self._give_indices()
        self._check_variables()
        self._extents()
        self.statements = settle_reversals(self.statements, self.dims_of)
        self._declare()

    # ---- formulas without indices are element-wise
    def _give_indices(self) -> None:
        if any(isinstance(n, Reduce) for s in self.statements for n in walk(s.value)):
            msg = "a formula with a reduction needs explicit indices, for example s[i] = sum_j x[i,j]"
            raise Refusal(msg)
        if self.details.axis not in {None, "all"}:
            msg = f"{self.details.axis_text!r} beside a formula without indices; write the formula with explicit indices"
            raise Refusal(msg)
        axes = Shaper(self.recipe, self.sizes, self.details).common()
        self.recipe.axes = axes
        variables = tuple(v for v, _ in axes)
        targets = [s.target for s in self.statements]
        names = list(
            dict.fromkeys(n.name for s in self.statements for n in walk(s.value) if isinstance(n, Name))
        )
        scalars = self._scalar_names([n for n in names if n not in targets])
        places = tuple(Name(v) for v in variables)
        clash = set(names) & set(variables)
        if clash:
            msg = f"{min(clash)!r} is the name of an array and of an index; write the formula with explicit indices"
            raise Refusal(msg)
        arrays = {n: Access(n, places) for n in (*names, *targets) if n not in scalars}
        self.statements = [
            Statement(s.target, variables, substitute(s.value, dict(arrays))) for s in self.statements
        ]
        self.dims_of = dict(axes)
        if not any(accesses(s.value) for s in self.statements):
            msg = "no array goes into the formula"
            raise Refusal(msg)

    def _scalar_names(self, names: list[str]) -> set[str]:
        told = {
            n
            for n in names
            if self._told_scalar(n)
            or n.lower() in GREEK
            or n in self.details.parameters
            or n.lower() in self.formulas.values
        }
        left = [n for n in names if n not in told]
        variables = [
            n
            for n in left
            if n.lower() in {"x", "y", "z", "u", "v", "w", "input", "inputs", "in", "data"} or len(n) > 1
        ]
        constants = [n for n in left if n not in variables]
        arrays = {n for n in left if self._told_array(n)}
        if variables and constants:
            for name in (n for n in constants if n not in arrays):
                told.add(name)
                self.recipe.assume(
                    f"{name} in the formula",
                    "a scalar",
                    "it stands beside arrays with names like x and y, and nothing says otherwise",
                )
        return told - arrays

    def _told_scalar(self, name: str) -> bool:
        own = re.escape(name.lower())
        return (
            re.search(
                rf"\b(?:scalars?|constants?|coefficients?|numbers?|factors?)(?: \w)?(?: and| ,)? {own}\b|\b{own}(?: and \w+)? (?:is|are|being) (?:an? |the )?(?:float )?(?:scalar|constant|number|coefficient)|\b{own} ?(?:=|is|of) ?{REAL}",
                self.rest,
            )
            is not None
        )

    def _told_array(self, name: str) -> bool:
        own = re.escape(name.lower())
        return (
            re.search(
                rf"\b(?:vectors?|arrays?|matri(?:x|ces)|tensors?|inputs?)(?: \w+,| \w+ and| \w+, \w+,? and)? {own}\b|\b{own}(?:(?:,| and) \w)* (?:is|are) (?:all )?(?:an? |the |two |three )?(?:\w+ )?(?:vectors?|arrays?|matri|tensors?)",
                self.rest,
            )
            is not None
        )

    # ---- index variables
    def _check_variables(self) -> None:
        for statement in self.statements:
            known = set(statement.indices) | bound_variables(statement.value)
            for access in accesses(statement.value):
                for index in access.indices:
                    loose = [n.name for n in walk(index) if isinstance(n, Name) and n.name not in known]
                    if isinstance(index, Name) and loose:
                        msg = f"index {loose[0]!r} stands only on the right of the formula for {statement.target!r}; write sum_{loose[0]} if it is summed over"
                        raise Refusal(msg)
                    if not isinstance(index, Name | Access) and _reversed_index(index, known) is None:
                        msg = "neighbours such as x[i+1] are not among the templates (only plain indices, n-1-i and index arrays)"
                        raise Refusal(msg)

    def _extents(self) -> None:
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
                variable = _reversed_index(index, set(self.dims_of))
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

    # ---- sizes
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
            dim = self._dim_called(name, free)
            if dim is not None:
                self.sizes.used_names.add(name)
                put(dim, value, f"{name} = {value}")
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
        order = self._arrays_in_order()
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
        names = {a.lower(): a for a in self._arrays_in_order()}
        beside = [m[1] for m in re.finditer(rf"\b(\w+){between} ?{mark}", self.rest)]
        return next((names[n] for n in beside if n in names), "")

    def _arrays_in_order(self) -> list[str]:
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

    def _dim_called(self, name: str, free: list[str]) -> str | None:
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

    # ---- names
    def _declare(self) -> None:
        recipe = self.recipe
        targets = [s.target for s in self.statements]
        if len(set(targets)) != len(targets):
            msg = f"{next(t for t in targets if targets.count(t) > 1)!r} is defined twice"
            raise Refusal(msg)
        reads = [{n.name for n in walk(s.value) if isinstance(n, Access | Name)} for s in self.statements]
        self._order_of_use(targets, reads)
        variables = {v for s in self.statements for v in (*s.indices, *bound_variables(s.value))}
        for name in self._arrays_in_order():
            if name not in targets:
                index = any(
                    isinstance(i, Access) and i.name == name
                    for s in self.statements
                    for a in accesses(s.value)
                    for i in a.indices
                )
                recipe.tensors.append(
                    {
                        "name": name,
                        "role": "in",
                        "dtype": "int32" if index else recipe.dtype,
                        "shape": list(self.ranks[name]),
                    }
                )
        for n, statement in enumerate(self.statements):
            own = statement.target in reads[n]
            later = any(statement.target in r for r in reads[n + 1 :])
            if later and not own:
                recipe.intermediates.append(
                    {
                        "name": statement.target,
                        "dtype": self._kept(statement),
                        "shape": list(self.ranks[statement.target]),
                    }
                )
            elif not own:
                recipe.tensors.append(self._output(statement))
            else:
                recipe.tensors.append(
                    {
                        "name": statement.target,
                        "role": "inout",
                        "dtype": recipe.dtype,
                        "shape": list(self.ranks[statement.target]),
                        **self._compare(statement),
                    }
                )
        taken = recipe.names() | variables
        for name in dict.fromkeys(
            n.name for s in self.statements for n in walk(s.value) if isinstance(n, Name)
        ):
            if name in taken:
                continue
            dim = self._as_dim(name)
            if dim is not None:
                self.statements = [
                    Statement(s.target, s.indices, substitute(s.value, {name: Name(dim)}))
                    for s in self.statements
                ]
            else:
                self._scalar(name)
        for statement in self.statements:
            recipe.statements.append(("formula", statement))
        for message in self._clashes(variables):
            raise Refusal(message)

    def _order_of_use(self, targets: list[str], reads: list[set[str]]) -> None:
        for n, statement in enumerate(self.statements):
            early = [t for t in targets[n + 1 :] if t in reads[n]]
            if early:
                msg = f"{early[0]!r} is used before it is defined"
                raise Refusal(msg)
            inside = [a for a in accesses(statement.value) if a.name == statement.target]
            if any(
                tuple(i.name if isinstance(i, Name) else "" for i in a.indices) != statement.indices
                for a in inside
            ):
                msg = f"{statement.target!r} is written while other elements of it are read; give the result another name"
                raise Refusal(msg)
            if inside and any(statement.target in r for r in (*reads[:n], *reads[n + 1 :])):
                msg = f"{statement.target!r} is updated in one formula and read in another; give the result another name"
                raise Refusal(msg)

    def _kept(self, statement: Statement) -> str:
        if any(isinstance(n, Reduce) and n.kind.startswith("arg") for n in walk(statement.value)):
            return "int64"
        return self.recipe.real

    def _output(self, statement: Statement) -> dict[str, Any]:
        recipe = self.recipe
        dtype = recipe.dtype
        kinds = {n.kind for n in walk(statement.value) if isinstance(n, Reduce)}
        entry: dict[str, Any] = {
            "name": statement.target,
            "role": "out",
            "dtype": dtype,
            "shape": list(self.ranks[statement.target]),
        }
        value = statement.value
        if isinstance(value, Reduce) and value.kind.startswith("arg"):
            entry["dtype"] = "int32"
            recipe.edge_rules.append(f"{value.kind} gives the lowest index among equal values")
            recipe.constraints.append("*".join(self.dims_of[v] for v in value.variables) + " <= 2147483647")
            body = value.body
            plain = isinstance(body, Access) and all(isinstance(i, Name) for i in body.indices)
            if plain and isinstance(body, Access):
                axes = [
                    n for n, i in enumerate(body.indices) if isinstance(i, Name) and i.name in value.variables
                ]
                entry["compare"] = {
                    "mode": "index",
                    "of": body.name,
                    "ties": "lowest",
                    **({"axis": axes[0]} if len(axes) == 1 and len(body.indices) > 1 else {}),
                }
            else:
                entry["compare"] = {"mode": "exact"}
            return entry
        if recipe.is_integer and kinds & {"sum", "prod"} and dtype not in {"int64", "uint64"}:
            entry["dtype"] = "int64"
            recipe.assume(
                f"dtype of {statement.target}",
                "int64",
                "a sum of many integers soon passes the range of its terms",
            )
        elif recipe.is_integer and (
            "mean" in kinds or any(isinstance(n, Binary) and n.op == "/" for n in walk(value))
        ):
            entry["dtype"] = "float32"
            recipe.assume(f"dtype of {statement.target}", "float32", "a quotient of integers is no integer")
        elif dtype == "float16" and "sum" in kinds and not self._is_matrix(statement):
            entry["dtype"] = "float32"
            recipe.assume(
                f"dtype of {statement.target}", "float32", "a sum of many float16 numbers soon passes 65504"
            )
        entry.update(self._compare(statement))
        return entry

    @staticmethod
    def _is_matrix(statement: Statement) -> bool:
        return len(statement.indices) >= 2

    def _compare(self, statement: Statement) -> dict[str, Any]:
        """Return the rule for sums: over how many terms, those of earlier formulas included."""
        lengths: list[str] = []
        for node in walk(statement.value):
            if isinstance(node, Reduce) and node.kind in {"sum", "mean", "prod"}:
                lengths += [self.dims_of[v] for v in node.variables]
            if isinstance(node, Access | Name):
                made = next(
                    (s for s in self.statements if s.target == node.name and s is not statement), None
                )
                if made is not None:
                    lengths += [
                        self.dims_of[v]
                        for r in walk(made.value)
                        if isinstance(r, Reduce)
                        for v in r.variables
                    ]
        return (
            {"compare": {"mode": "close", "reduction_length": "*".join(dict.fromkeys(lengths))}}
            if lengths
            else {}
        )

    def _as_dim(self, name: str) -> str | None:
        """Return the dim that a bare name such as n means, `None` when it is a scalar."""
        if name in self.recipe.dims:
            return name
        if name.lower() not in SIZE_NAMES or self._told_scalar_word(name):
            return None
        free = list(dict.fromkeys(self.dims_of.values()))
        own = self._dim_called(name.lower(), list(self.dims_of))
        if own is not None:
            return own
        reduced = {self.dims_of[v] for s in self.statements for v in bound_variables(s.value)}
        if len(free) == 1 or len(reduced) == 1:
            return free[0] if len(free) == 1 else next(iter(reduced))
        msg = f"it is not clear which size {name!r} is in the formula"
        raise Refusal(msg)

    def _told_scalar_word(self, name: str) -> bool:
        return re.search(rf"\bscalars? {re.escape(name.lower())}\b", self.rest) is not None

    def _scalar(self, name: str) -> None:
        if name in FUNCTIONS:
            msg = f"{name!r} is the name of a function and needs an argument"
            raise Refusal(msg)
        key = {"epsilon": "eps"}.get(name.lower(), name.lower())
        value = self.formulas.values.get(name.lower(), self.details.parameters.get(key))
        positive = (
            any(
                isinstance(n, Binary)
                and n.op == "/"
                and any(isinstance(p, Name) and p.name == name for p in walk(n.right))
                for s in self.statements
                for n in walk(s.value)
            )
            or key == "eps"
        )
        low, high = (0.25, 4.0) if positive else (-3.0, 3.0)
        if key == "eps":
            low, high = 1e-6, 1e-3
        own = value if value is not None else (1e-5 if key == "eps" else 1.5)
        dtype = (
            "float64"
            if self.recipe.dtype == "float64"
            else ("int32" if self.recipe.is_integer else "float32")
        )
        if dtype == "int32":
            if own != int(own) and value is not None:
                msg = f"{name} = {own:g} is no integer, and the arrays hold integers"
                raise Refusal(msg)
            own, low, high = int(own), int(low), int(high)
        self.recipe.scalars.append({
            "name": name, "dtype": dtype, "value": own, "low": min(low, own), "high": max(high, own),
            "source": "stated" if value is not None else "assumed", "why": "" if value is not None else "a bare name in the formula is a number passed by value",
        })  # fmt: skip
        self.used.add(key)

    def _clashes(self, variables: set[str]) -> list[str]:
        names = {t["name"] for t in self.recipe.tensors} | {s["name"] for s in self.recipe.scalars}
        return [
            f"{name!r} is the name of an index and of something else; rename one"
            for name in sorted(names & variables)
        ]


def _reversed_index(node: Node, variables: set[str]) -> str | None:
    """Return i when the index is `n - 1 - i`, `None` when it is anything else."""
    match node:
        case Binary("-", Binary("-", Name(_), Num(1.0, _)), Name(variable)) if variable in variables:
            return variable
        case _:
            return None


def steadied(node: Node) -> Node:
    """Return the formula with log(1 + u) and exp(u) - 1 as log1p and expm1, which keep small u."""
    node = rebuild(node, steadied)
    match node:
        case Call("log", (Binary("+", Num(1.0, _), rest),)) | Call("log", (Binary("+", rest, Num(1.0, _)),)):
            return Call("log1p", (rest,))
        case Binary("-", Call("exp", args), Num(1.0, _)):
            return Call("expm1", args)
        case Binary("-", Num(1.0, _), Call("exp", args)):
            return Negate(Call("expm1", args))
        case _:
            return node


def settle_reversals(statements: list[Statement], dims_of: dict[str, str]) -> list[Statement]:
    """Return the statements with `n - 1 - i` written with the dim of i."""

    def settle(node: Node) -> Node:
        variable = _reversed_index(node, set(dims_of))
        if variable is not None:
            return Binary("-", Binary("-", Name(dims_of[variable]), Num(1.0, "1")), Name(variable))
        return rebuild(node, settle)

    return [Statement(s.target, s.indices, settle(s.value)) for s in statements]
