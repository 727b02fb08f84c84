"""Formulas evaluated directly, element by element: whether two plans mean the same, and what a reference must say."""

import math
from collections.abc import Callable, Mapping
from itertools import product

from cuda_harness.state.expr import Expr
from cuda_harness.tools.formula.binding import Bound, Problem
from cuda_harness.tools.formula.functions import FUNCTIONS
from cuda_harness.tools.formula.nodes import (
    Access,
    Binary,
    Call,
    Name,
    Negate,
    Node,
    Num,
    Reduce,
    substitute,
)
from cuda_harness.tools.formula.parse import parse_expression

Values = dict[tuple[int, ...], float]


class TooMuchWork(Exception):  # noqa: N818 - names a condition
    """The formulas visit more nodes than were granted."""


_ONE: dict[str, Callable[..., float]] = {
    "exp": lambda x: math.exp(x) if x < 709 else math.inf, "exp2": lambda x: 2.0**x, "expm1": math.expm1, "log": math.log, "log2": math.log2, "log10": math.log10,
    "log1p": math.log1p, "sqrt": math.sqrt, "rsqrt": lambda x: 1 / math.sqrt(x), "sin": math.sin, "cos": math.cos,
    "tan": math.tan, "tanh": math.tanh, "sinh": math.sinh, "cosh": math.cosh, "asin": math.asin, "acos": math.acos,
    "atan": math.atan, "erf": math.erf, "erfc": math.erfc, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc,
    "round": lambda x: float(round(x)), "abs": abs, "sign": lambda x: (x > 0) - (x < 0), "min": min, "max": max, "pow": math.pow,
}  # fmt: skip
_TWO: dict[str, Callable[[float, float], float]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b, "^": math.pow,
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # fmt: skip


class Evaluation:
    """Runs the statements of a problem over dictionaries of elements."""

    def __init__(
        self,
        problem: Problem,
        dims: Mapping[str, int],
        scalars: Mapping[str, float],
        inputs: Mapping[str, Values],
        *,
        most: int | None = None,
    ) -> None:
        """Run every statement.

        Args:
            problem: The bound statements.
            dims: Sizes.
            scalars: By name.
            inputs: Elements of every input by their indices.
            most: Nodes that may be visited; `None`: no limit.

        Raises:
            ArithmeticError, ValueError: Outside a function's domain.
            KeyError: An index outside its array.
            TooMuchWork: Beyond `most`.
        """
        self.left = most
        self.problem, self.dims, self.scalars = problem, dims, scalars
        self.arrays: dict[str, Values] = dict(inputs)
        for bound in problem.bound:
            self.arrays[bound.statement.target] = self._run(bound)

    def _run(self, bound: Bound) -> Values:
        self.extents = {v: Expr(e).evaluate(self.dims) for v, e in bound.extents.items()}
        own = bound.statement.indices
        return {
            place: float(self.value(bound.statement.value, dict(zip(own, place, strict=True))))
            for place in product(*(range(self.extents[v]) for v in own))
        }

    def value(self, node: Node, at: dict[str, int]) -> float:
        """Return the value of a node at index values; raises ArithmeticError or ValueError outside its domain."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise TooMuchWork
        match node:
            case Num(value, _):
                return value
            case Name(name):
                return self._name(name, at)
            case Access(name, indices):
                return self.arrays[name][tuple(int(self.value(i, at)) for i in indices)]
            case Negate(operand):
                return -self.value(operand, at)
            case Binary(op, left, right):
                return _TWO[op](self.value(left, at), self.value(right, at))
            case Call(name, args):
                return self._call(name, args, at)
            case Reduce():
                return self._reduce(node, at)

    def _name(self, name: str, at: dict[str, int]) -> float:
        if name in at:
            return at[name]
        if name in self.scalars:
            return self.scalars[name]
        return self.dims[name] if name in self.dims else next(iter(self.arrays[name].values()))

    def _call(self, name: str, args: tuple[Node, ...], at: dict[str, int]) -> float:
        if name == "where":
            return self.value(args[1] if self.value(args[0], at) else args[2], at)
        function = FUNCTIONS[name]
        if function.meaning:
            names = dict(zip(function.parameters, args, strict=True))
            return self.value(substitute(parse_expression(function.meaning), names), at)
        given = [self.value(a, at) for a in args]
        try:
            return _ONE[name](*given)
        except OverflowError:  # float arithmetic gives an infinity here
            return math.copysign(math.inf, given[0]) if name == "sinh" else math.inf

    def _reduce(self, node: Reduce, at: dict[str, int]) -> float:
        ranges = [range(self.extents[v]) for v in node.variables]
        if node.bound is not None:
            ranges = [range(at[node.bound[1]] + (node.bound[0] == "<="))]
        terms = [
            self.value(node.body, {**at, **dict(zip(node.variables, p, strict=True))})
            for p in product(*ranges)
        ]
        match node.kind:
            case "sum":
                return math.fsum(terms)
            case "mean":
                return math.fsum(terms) / len(terms)
            case "prod":
                return math.prod(terms)
            case "max" | "min":
                return (max if node.kind == "max" else min)(terms)
            case _:
                best = max(terms) if node.kind == "argmax" else min(terms)
                return terms.index(best)
