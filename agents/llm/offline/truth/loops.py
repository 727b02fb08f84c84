"""The loop reference: every formula as the loops it means, every named function by its definition."""

import re

from cuda_harness.state.expr import Expr
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import FLOATS, ITEM_BYTES
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
    show_statement,
    substitute,
)
from cuda_harness.tools.formula.parse import parse_expression

_HEAD = """import math

import numpy as np


def _exp(x):
    return math.exp(x) if x < 709.0 else math.inf


def _expm1(x):
    return math.expm1(x) if x < 709.0 else math.inf


def _sinh(x):
    return math.sinh(x) if abs(x) < 710.0 else math.copysign(math.inf, x)


def _cosh(x):
    return math.cosh(x) if abs(x) < 710.0 else math.inf


def _log(x, base=math.e):
    if x > 0.0:
        return math.log2(x) if base == 2.0 else math.log10(x) if base == 10.0 else math.log(x)
    return -math.inf if x == 0.0 else math.nan


def _sqrt(x):
    return math.sqrt(x) if x >= 0.0 else math.nan


def _div(x, y):
    if y != 0.0:
        return x / y
    return math.nan if x == 0.0 or x != x else math.copysign(math.inf, x) * math.copysign(1.0, y)


def _pow(x, y):
    try:
        return math.pow(x, y)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def _wrap(value, bits, signed):
    value = int(value) % 2**bits
    return value - 2**bits if signed and value >= 2 ** (bits - 1) else value
"""


class _Writer:
    def __init__(self, problem: Problem, bound: Bound, *, real: bool) -> None:
        self.problem, self.bound, self.real = problem, bound, real
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.index: dict[str, str] = {}

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def size(self, expression: str) -> str:
        names = Expr(expression).names
        return re.sub(r"[A-Za-z_]\w*", lambda m: f"dims[{m[0]!r}]" if m[0] in names else m[0], expression)

    def loop(self, variable: str, stop: str = "") -> None:
        own = f"i_{variable}"
        self.index[variable] = own
        self.line(f"for {own} in range({stop or self.size(self.bound.extents[variable])}):")
        self.depth += 1

    def value(self, node: Node) -> str:
        match node:
            case Num(value, text):
                return str(int(value)) if not self.real else repr(float(text))
            case Name(name):
                return self.name(name)
            case Access():
                return self.element(node)
            case Negate(operand):
                return f"(-{self.value(operand)})"
            case Call(name, args):
                return self.call(name, args)
            case Binary("/", left, right):
                return f"_div({self.value(left)}, {self.value(right)})"
            case Binary("^", left, right):
                if self.real:
                    return f"_pow({self.value(left)}, {self.value(right)})"
                return f"({self.value(left)} ** {self.value(right)})"
            case Binary(op, left, right):
                return f"({self.value(left)} {op} {self.value(right)})"
            case Reduce():
                return self.reduce(node)

    def name(self, name: str) -> str:
        if name in self.index:
            return self.index[name]
        number = "float" if self.real else "int"
        if name in self.problem.scalars:
            return f"{number}(scalars[{name!r}])"
        if name in self.problem.dims:
            return f"{number}(dims[{name!r}])"
        return f"{number}(a[{name!r}].reshape(-1)[0])"

    def element(self, node: Access) -> str:
        number = "float" if self.real else "int"
        return f"{number}(a[{node.name!r}][{', '.join(self.position(i) for i in node.indices)}])"

    def position(self, node: Node) -> str:
        match node:
            case Access():
                return f"int(a[{node.name!r}][{', '.join(self.position(i) for i in node.indices)}])"
            case Num(value, _):
                return str(int(value))
            case Name(name) if name in self.index:
                return self.index[name]
            case Name(name):
                return f"dims[{name!r}]"
            case Negate(operand):
                return f"(-{self.position(operand)})"
            case Binary(op, left, right):
                return f"({self.position(left)} {op} {self.position(right)})"
            case _:
                return f"int({self.value(node)})"

    def call(self, name: str, args: tuple[Node, ...]) -> str:
        function = FUNCTIONS[name]
        if function.meaning:
            return self.value(
                substitute(
                    parse_expression(function.meaning), dict(zip(function.parameters, args, strict=True))
                )
            )
        python = {"sqrt": "_sqrt({0})", "rsqrt": "_div(1.0, _sqrt({0}))"}.get(name, function.python)
        return "(" + python.format(*(self.value(a) for a in args)) + ")"

    def reduce(self, node: Reduce) -> str:
        """Write the loops of a reduction before the line that uses it, and return its variable."""
        self.count += 1
        own = f"r{self.count}"
        best = f"{own}_at"
        kind = node.kind
        neutral = {"sum": "0", "mean": "0", "prod": "1", "max": "-math.inf", "argmax": "-math.inf"}.get(
            kind, "math.inf"
        )
        self.line(f"{own} = {neutral}")
        if kind in {"argmax", "argmin"}:
            self.line(f"{best} = 0")
        depth = self.depth
        outer = dict(self.index)
        for variable in node.variables:
            stop = ""
            if node.bound is not None:
                stop = self.index[node.bound[1]] + (" + 1" if node.bound[0] == "<=" else "")
            self.loop(variable, stop)
        term = self.value(node.body)
        if kind in {"sum", "mean"}:
            self.line(f"{own} = {own} + {term}")
        elif kind == "prod":
            self.line(f"{own} = {own} * {term}")
        else:
            sign = ">" if kind.endswith("max") else "<"
            self.line(f"term = {term}")
            self.line(f"if term {sign} {own}:")
            self.line(f"    {own} = term")
            if kind.startswith("arg"):
                place = ""
                for variable in node.variables:
                    step = self.index[variable]
                    place = (
                        f"({place}) * {self.size(self.bound.extents[variable])} + {step}" if place else step
                    )
                self.line(f"    {best} = {place}")
        self.depth, self.index = depth, outer
        if kind == "mean":
            count = " * ".join(f"({self.size(self.bound.extents[v])})" for v in node.variables)
            return f"_div({own}, {count})"
        return best if kind.startswith("arg") else own


def loop_reference(ir: KernelIR) -> str:
    """Return reference.py in plain loops; raises FormulaError."""
    problem = Problem(ir)
    body = ["    a = {name: array.copy() for name, array in inputs.items()}"]
    for bound in problem.bound:
        body += _statement(problem, bound)
    listed = ", ".join(f"{t.name!r}: a[{t.name!r}]" for t in ir.outputs)
    text = "\n".join([*body, f"    return {{{listed}}}"])
    return f"{_HEAD}\n\ndef reference(inputs, dims, scalars):\n{text}\n"


def _statement(problem: Problem, bound: Bound) -> list[str]:
    statement = bound.statement
    array = problem.array(statement.target)
    writer = _Writer(problem, bound, real=problem.type_of(bound) != "int64")
    writer.line(f"# {show_statement(statement)}")
    kept = (
        "np.float64"
        if array.dtype in FLOATS
        else ("np.bool_" if array.dtype == "bool" else f"np.{array.dtype}")
    )
    shape = "".join(f"{writer.size(s)}, " for s in array.shape)
    writer.line(f"new = np.zeros(({shape}), dtype={kept})")
    for variable in statement.indices:
        writer.loop(variable)
    value = writer.value(statement.value)
    if array.dtype == "bool":
        value = f"({value}) != 0"
    elif array.dtype not in FLOATS:
        value = f"_wrap({value}, {8 * ITEM_BYTES[array.dtype]}, {not array.dtype.startswith('u')})"
    place = ", ".join(writer.index[v] for v in statement.indices) or "()"
    writer.line(f"new[{place}] = {value}")
    writer.depth = 1
    writer.line(f"a[{statement.target!r}] = new")
    return writer.lines
