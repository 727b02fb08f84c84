"""What each input may hold: found by interval arithmetic over the formulas, so that no logarithm, root or quotient leaves its domain."""

import math
from dataclasses import dataclass
from typing import Any

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import FLOATS
from cuda_harness.tools.formula.binding import Problem
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
    accesses,
    substitute,
    walk,
)
from cuda_harness.tools.formula.parse import parse_expression

Interval = tuple[float, float]
WHOLE: Interval = (-math.inf, math.inf)
_LIMIT = {"float16": 9.0, "bfloat16": 40.0, "float32": 40.0, "float64": 300.0}
"""Largest exponent whose exponential, and a sum of a few, stays finite in the output's dtype."""
_CANDIDATES: tuple[Interval, ...] = ((-4.0, 4.0), (-0.95, 0.95), (0.5, 4.0), (0.05, 0.95))


@dataclass
class _Fault:
    """A function that may leave its domain, and the arrays that its argument reads."""

    arrays: frozenset[str]


class _Intervals:
    def __init__(self, problem: Problem, domains: dict[str, Interval]) -> None:
        self.problem, self.domains = problem, domains
        self.faults: list[_Fault] = []
        self.limit = min(
            (_LIMIT.get(t.dtype, 40.0) for t in problem.ir.outputs if t.dtype in FLOATS), default=40.0
        )
        self.known: dict[str, Interval] = {}
        for bound in problem.bound:
            self.known[bound.statement.target] = self.of(bound.statement.value)

    def of(self, node: Node) -> Interval:
        match node:
            case Num(value, _):
                return (value, value)
            case Name(name):
                return self.name(name)
            case Access(name, _):
                return self.known.get(name) or self.domains.get(name, WHOLE)
            case Negate(operand):
                low, high = self.of(operand)
                return (-high, -low)
            case Call():
                return self.call(node)
            case Binary():
                return self.binary(node)
            case Reduce():
                return self.reduce(node)

    def name(self, name: str) -> Interval:
        scalar = self.problem.scalars.get(name)
        if scalar is not None:
            value = float(scalar.value)
            if scalar.fixed:
                return (value, value)
            return (
                float(scalar.low) if scalar.low is not None else -math.inf,
                float(scalar.high) if scalar.high is not None else math.inf,
            )
        if name in self.problem.dims:
            return (1.0, math.inf)
        return self.known.get(name) or self.domains.get(
            name, WHOLE if name in self.problem.arrays else (0.0, math.inf)
        )

    def fault(self, node: Node) -> None:
        self.faults.append(_Fault(self.inputs_of(node)))

    def inputs_of(self, node: Node) -> frozenset[str]:
        """Return the input tensors that a value depends on."""
        found: set[str] = set()
        for part in walk(node):
            if isinstance(part, Access | Name):
                made = self.problem.definitions.get(part.name)
                own = self.problem.arrays.get(part.name)
                if own is not None and own.kind in {"in", "inout"}:
                    found.add(part.name)
                elif made is not None:
                    found |= self.inputs_of(made.statement.value)
        return frozenset(found)

    def call(self, node: Call) -> Interval:
        function = FUNCTIONS[node.name]
        if node.name == "where":
            self.of(node.args[0])
            one, two = self.of(node.args[1]), self.of(node.args[2])
            return (min(one[0], two[0]), max(one[1], two[1]))
        if node.name in {"min", "max"}:
            pick = min if node.name == "min" else max
            one, two = self.of(node.args[0]), self.of(node.args[1])
            return (pick(one[0], two[0]), pick(one[1], two[1]))
        if node.name in {"elu", "celu", "selu", "silu", "gelu", "gelu_tanh", "mish"}:
            low, high = self.of(node.args[0])
            return (min(-2.0, low), max(high, 0.0) * 1.1)
        if node.name in {"sigmoid", "hardsigmoid"}:
            self.of(node.args[0])
            return (0.0, 1.0)
        if node.name == "softplus":
            low, high = self.of(node.args[0])
            return (0.0, max(high, 0.0) + 1.0)
        if function.meaning:
            return self.of(
                substitute(
                    parse_expression(function.meaning), dict(zip(function.parameters, node.args, strict=True))
                )
            )
        low, high = self.of(node.args[0])
        argument = node.args[0]
        if (function.domain == "positive" and low <= 0) or (function.domain == "non_negative" and low < 0):
            self.fault(argument)
        if function.domain == "unit" and (low < -1 or high > 1):
            self.fault(argument)
        if function.domain == "growing" and high > self.limit and not self.is_shifted(argument):
            self.fault(argument)
        return _image(node.name, low, high, shifted=self.is_shifted(argument))

    def is_shifted(self, node: Node) -> bool:
        """Whether the value is `x - max x`, which is never positive."""
        if not (isinstance(node, Binary) and node.op == "-" and isinstance(node.right, Access | Name)):
            return False
        made = self.problem.definitions.get(node.right.name)
        if made is None or not isinstance(made.statement.value, Reduce) or made.statement.value.kind != "max":
            return False
        body = made.statement.value.body
        return {a.name for a in accesses(body)} == {a.name for a in accesses(node.left)}

    def binary(self, node: Binary) -> Interval:
        low, high = self.of(node.left)
        right_low, right_high = self.of(node.right)
        match node.op:
            case "+":
                return (low + right_low, high + right_high)
            case "-":
                return (low - right_high, high - right_low)
            case "*":
                if node.left == node.right:
                    return _image("square", low, high)
                return _product((low, high), (right_low, right_high))
            case "/":
                if right_low <= 0 <= right_high:
                    self.fault(node.right)
                    return WHOLE
                return _product((low, high), (1 / right_high, 1 / right_low))
            case "^":
                if right_low == right_high and right_low == int(right_low) and right_low >= 0:
                    return _image("square", low, high) if int(right_low) % 2 == 0 else (low, high)
                if low <= 0:
                    self.fault(node.left)
                return (0.0, math.inf)
            case _:
                return (0.0, 1.0)

    def reduce(self, node: Reduce) -> Interval:
        low, high = self.of(node.body)
        if node.kind in {"max", "min", "mean"}:
            return (low, high)
        if node.kind in {"argmax", "argmin"}:
            return (0.0, math.inf)
        if node.kind == "prod":
            return (0.0, math.inf) if low >= 0 else WHOLE
        return (low if low >= 0 else -math.inf, high if high <= 0 else math.inf)


def _image(name: str, low: float, high: float, *, shifted: bool = False) -> Interval:
    match name:
        case "exp" | "exp2":
            return (
                math.exp(low) if low > -40 else 1e-18,
                1.0 if shifted else (math.exp(high) if high < 300 else math.inf),
            )
        case "abs":
            return (0.0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high)))
        case "square":
            least = 0.0 if low <= 0 <= high else min(low * low, high * high)
            return (least, max(low * low, high * high))
        case "sqrt":
            return (math.sqrt(max(low, 0.0)), math.sqrt(max(high, 0.0)))
        case "rsqrt":
            return (0.0, math.inf)
        case "log" | "log2" | "log10" | "log1p":
            return WHOLE
        case "cosh":
            return (1.0, math.inf)
        case "sin" | "cos" | "tanh" | "erf" | "sign":
            return (-1.0, 1.0)
        case _:
            return WHOLE


def _product(one: Interval, two: Interval) -> Interval:
    values = [0.0 if 0.0 in {a, b} else a * b for a in one for b in two]
    return (min(values), max(values))


def input_specs(ir: KernelIR) -> dict[str, dict[str, Any]]:
    """Return inputs.json: a specification for each input that the formulas restrict; raises FormulaError."""
    problem = Problem(ir)
    specs: dict[str, dict[str, Any]] = {}
    for name, extent in index_tensors(problem).items():
        specs[name] = {"distribution": "integers", "low": 0, "high": extent}
    domains = {n: (low, high) for n, (low, high) in _narrowed(problem).items()}
    found = _Intervals(problem, domains).faults
    for fault in found:
        for name in sorted(fault.arrays - set(specs)):
            domains[name] = _best_domain(problem, domains, name)
    for name, (low, high) in domains.items():
        if name not in specs and math.isfinite(low):
            specs[name] = {"distribution": "uniform", "low": low, "high": high}
    return specs


def index_tensors(problem: Problem) -> dict[str, str]:
    """Return the integer inputs that stand inside indices, with the length of the axis they index."""
    found: dict[str, str] = {}
    for bound in problem.bound:
        for access in accesses(bound.statement.value):
            shape = problem.array(access.name).shape
            for index, extent in zip(access.indices, shape, strict=True):
                if isinstance(index, Access):
                    found[index.name] = extent
    return found


def _best_domain(problem: Problem, domains: dict[str, Interval], name: str) -> Interval:
    """Return the widest candidate for `name` that leaves the fewest faults."""
    best, fewest = domains.get(name, WHOLE), len(_Intervals(problem, domains).faults)
    for candidate in _CANDIDATES:
        left = len(_Intervals(problem, {**domains, name: candidate}).faults)
        if left < fewest:
            best, fewest = candidate, left
    return best


def _narrowed(problem: Problem) -> dict[str, Interval]:
    """Return bounds for float16 data that is multiplied or added up: its largest number is only 65504."""
    if not any(t.dtype == "float16" for t in problem.ir.tensors):
        return {}
    grows = any(
        (isinstance(n, Reduce) and n.kind in {"sum", "prod"})
        or (isinstance(n, Binary) and n.op in {"*", "^"} and len(accesses(n)) > 1)
        or (isinstance(n, Call) and n.name in {"square", "cube", "pow"})
        for b in problem.bound for n in walk(b.statement.value)
    )  # fmt: skip
    if not grows:
        return {}
    return {t.name: (-1.0, 1.0) for t in problem.ir.inputs if t.dtype == "float16"}
