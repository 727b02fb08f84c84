"""Formulas turned into an IR: which names are dims, inputs, scalars, intermediates and outputs, and how long each axis is."""

import re
from typing import Any

from cuda_harness.agents.llm.offline.planning.formula_axes import FormulaAxes
from cuda_harness.agents.llm.offline.planning.formula_forms import settle_reversals, steadied
from cuda_harness.agents.llm.offline.planning.formulas import GREEK, SIZE_NAMES, is_indexed
from cuda_harness.agents.llm.offline.planning.numbers import REAL
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.agents.llm.offline.planning.shapes import Shaper
from cuda_harness.tools.formula.functions import FUNCTIONS
from cuda_harness.tools.formula.nodes import (
    Access,
    Binary,
    Name,
    Reduce,
    Statement,
    accesses,
    bound_variables,
    substitute,
    walk,
)


class FormulaPlanner(FormulaAxes):
    """Declares what a set of formulas names: dims, inputs, scalars, intermediates, outputs."""

    def plan(self) -> None:
        """Fill the recipe; raises Refusal."""
        self.statements = [Statement(s.target, s.indices, steadied(s.value)) for s in self.statements]
        if not is_indexed(self.formulas):
            self._give_indices()
        self.check_variables()
        self.extents()
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
        if self.details.noun == "matrix" and "elementwise" not in self.details.flags:
            self._refuse_products()
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

    def _refuse_products(self) -> None:
        """Refuse `A*B` beside the word matrix: it may be either product."""
        for node in (n for s in self.statements for n in walk(s.value)):
            if isinstance(node, Binary) and node.op == "*" and isinstance(node.right, Name):
                left = node.left.right if isinstance(node.left, Binary) else node.left
                if isinstance(left, Name) and left.name.isupper() and node.right.name.isupper():
                    msg = f"'{left.name}*{node.right.name}' of matrices can be the matrix product or element by element; say which"
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
        for name in self.arrays_in_order():
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
        own = self.dim_called(name.lower(), list(self.dims_of))
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
