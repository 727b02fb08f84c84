"""Formulas from text."""

import re
from dataclasses import dataclass
from typing import Literal, cast

from cuda_harness.tools.formula.functions import FUNCTIONS
from cuda_harness.tools.formula.nodes import (
    REDUCERS,
    Access,
    Binary,
    Call,
    Name,
    Negate,
    Node,
    Num,
    Reduce,
    Reducer,
    Statement,
    free_variables,
)

MAX_CHARS = 4_000
MAX_DEPTH = 60
_REDUCER = "|".join(REDUCERS)
_TOKEN = re.compile(
    rf"""(?P<space>\s+)
    |(?P<reduce>(?:{_REDUCER})_(?:\{{[^{{}}]*\}}|[a-z](?![A-Za-z0-9_])))(?!\s*\[)
    |(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<op>\*\*|<=|>=|==|!=|[-+*/^()<>=,|?:\[\]])""",
    re.VERBOSE | re.ASCII,
)
_ALIASES = {"fabs": "abs", "fabsf": "abs", "expf": "exp", "logf": "log", "sqrtf": "sqrt", "tanhf": "tanh", "ln": "log",
            "fmax": "max", "fmaxf": "max", "fmin": "min", "fminf": "min", "maximum": "max", "minimum": "min", "swish": "silu",
            "clip": "clamp", "arctan": "atan", "arcsin": "asin", "arccos": "acos", "rint": "round", "power": "pow",
            "sgn": "sign", "leakyrelu": "leaky_relu", "inverse_sqrt": "rsqrt", "sinf": "sin", "cosf": "cos", "powf": "pow",
            "erff": "erf", "hard_swish": "hardswish", "hard_sigmoid": "hardsigmoid", "hard_tanh": "hardtanh"}  # fmt: skip


class FormulaError(ValueError):
    """The text is not a formula of the language; the message says where and why."""


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str


def parse_statement(text: str) -> Statement:
    """Return `target[...] = expression`.

    Raises:
        FormulaError: Names the place.
    """
    parser = _Parser(text)
    target = parser.take("name").text
    indices: list[str] = []
    if parser.accept("["):
        indices = [parser.take("name").text]
        while parser.accept(","):
            indices.append(parser.take("name").text)
        parser.expect("]")
    parser.expect("=")
    value = parser.expression()
    parser.end()
    if len(set(indices)) != len(indices):
        msg = f"an index repeats on the left of {text.strip()!r}"
        raise FormulaError(msg)
    return Statement(target, tuple(indices), value)


def longest_expression(text: str) -> tuple[Node, int] | None:
    """Return the expression that `text` begins with and where it ends, as long as it can be; `None` when there is none."""
    ends = [m.end() for m in _TOKEN.finditer(text[:MAX_CHARS]) if m.lastgroup != "space"]
    reached = 0
    for match in _TOKEN.finditer(text[:MAX_CHARS]):  # stop at the first character that is no token
        if match.start() != reached:
            break
        reached = match.end()
    for end in reversed([e for e in ends if e <= reached]):
        if text[end : end + 1].isalnum() or text[end : end + 1] == "_":
            continue
        try:
            return parse_expression(text[:end]), end
        except FormulaError:
            continue
    return None


def parse_expression(text: str) -> Node:
    """Return the expression in `text`; raises FormulaError."""
    parser = _Parser(text)
    value = parser.expression()
    parser.end()
    return value


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARS:
            msg = f"the formula is longer than {MAX_CHARS} characters"
            raise FormulaError(msg)
        self.text = text
        self.tokens: list[_Token] = []
        self.place = self.depth = 0
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                msg = f"{text[at]!r} is not understood in the formula {text.strip()[:200]!r}"
                raise FormulaError(msg)
            if match.lastgroup != "space":
                self.tokens.append(_Token(str(match.lastgroup), match[0]))
            at = match.end()

    # ---- tokens
    def peek(self) -> _Token:
        return self.tokens[self.place] if self.place < len(self.tokens) else _Token("end", "the end")

    def accept(self, *texts: str) -> str | None:
        token = self.peek()
        if token.kind == "op" and token.text in texts:
            self.place += 1
            return token.text
        return None

    def expect(self, text: str) -> None:
        if self.accept(text) is None:
            self.fail(f"{text!r} is missing before {self.peek().text!r}")

    def take(self, kind: str) -> _Token:
        token = self.peek()
        if token.kind != kind:
            self.fail(f"a {kind} is missing before {token.text!r}")
        self.place += 1
        return token

    def end(self) -> None:
        if self.peek().kind != "end":
            self.fail(f"{self.peek().text!r} is left over")

    def fail(self, why: str) -> None:
        msg = f"{why} in the formula {self.text.strip()[:200]!r}"
        raise FormulaError(msg)

    # ---- grammar
    def expression(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail("it is nested too deeply")
        left = self.sum()
        op = self.accept("<=", ">=", "==", "!=", "<", ">")
        if op is not None:
            left = Binary(op, left, self.sum())
        if self.accept("?") is not None:
            chosen = self.expression()
            self.expect(":")
            left = Call("where", (left, chosen, self.expression()))
        elif self.peek() == _Token("name", "if"):
            self.place += 1
            condition = self.expression()
            if self.take("name").text != "else":
                self.fail("'else' is missing")
            left = Call("where", (condition, left, self.expression()))
        self.depth -= 1
        return left

    def sum(self) -> Node:
        left = self.product()
        while (op := self.accept("+", "-")) is not None:
            left = Binary(op, left, self.product())
        return left

    def product(self) -> Node:
        left = self.signed()
        while (op := self.accept("*", "/")) is not None:
            start = self.place
            right = self.signed()
            if op == "/" and isinstance(right, Reduce) and self.tokens[start].kind == "reduce":
                self.check_divisor(right)
            left = Binary(op, left, right)
        return left

    def check_divisor(self, divisor: Reduce) -> None:
        """Refuse `a / sum_k b[k] * c`: the reduction has taken `c` along, which may not be meant."""
        body = divisor.body
        if isinstance(body, Binary) and body.op in "*/":
            inner = free_variables(body.right, frozenset(divisor.variables))
            if not inner:
                self.fail(
                    "put parentheses around the reduction in the divisor: it is not clear where it ends"
                )

    def signed(self) -> Node:
        if self.accept("-") is not None:
            self.depth += 1
            if self.depth > MAX_DEPTH:
                self.fail("it is nested too deeply")
            operand = self.signed()
            self.depth -= 1
            return Negate(operand)
        if self.accept("+") is not None:
            return self.signed()
        return self.power()

    def power(self) -> Node:
        base = self.atom()
        if self.accept("^", "**") is not None:
            self.depth += 1
            base = Binary("^", base, self.signed())
            self.depth -= 1
        return base

    def atom(self) -> Node:
        token = self.peek()
        if token.kind == "number":
            self.place += 1
            return Num(float(token.text), token.text)
        if token.kind == "reduce":
            self.place += 1
            return self.reduction(token.text)
        if token.kind == "name":
            self.place += 1
            return self.named(token.text)
        if self.accept("(") is not None:
            inner = self.expression()
            self.expect(")")
            return inner
        if self.accept("|") is not None:
            inner = self.expression()
            self.expect("|")
            return Call("abs", (inner,))
        self.fail(f"{token.text!r} cannot stand")
        raise AssertionError  # `fail` always raises

    def named(self, name: str) -> Node:
        if self.accept("[") is not None:
            indices = [self.expression()]
            while self.accept(",") is not None:
                indices.append(self.expression())
            self.expect("]")
            return Access(name, tuple(indices))
        if self.accept("(") is not None:
            args = [self.expression()]
            while self.accept(",") is not None:
                args.append(self.expression())
            self.expect(")")
            return self.call(name, args)
        return Name(name)

    def call(self, name: str, args: list[Node]) -> Node:
        known = name.lower()
        known = _ALIASES.get(known, known)
        function = FUNCTIONS.get(known)
        if function is None:
            self.fail(f"there is no function {name!r}")
            raise AssertionError
        if known in {"min", "max"} and len(args) > 2:
            folded = args[0]
            for arg in args[1:]:
                folded = Call(known, (folded, arg))
            return folded
        args = [*args, *(parse_expression(d) for d in function.defaults[len(args) - len(function.parameters):])] \
            if len(args) < len(function.parameters) and len(function.parameters) - len(args) <= len(function.defaults) else args  # fmt: skip
        if len(args) != len(function.parameters):
            self.fail(f"{name!r} takes {len(function.parameters)} arguments, not {len(args)}")
        return Call(known, tuple(args))

    def reduction(self, token: str) -> Node:
        kind, _, subscript = token.partition("_")
        inside = subscript.strip("{}").replace(" ", "")
        bound: tuple[Literal["<", "<="], str] | None = None
        match = re.fullmatch(r"([A-Za-z]\w*)(<=|<)([A-Za-z]\w*)", inside)
        if match:
            variables: tuple[str, ...] = (match[1],)
            bound = (cast("Literal['<', '<=']", match[2]), match[3])
        else:
            variables = tuple(inside.split(","))
            if not all(re.fullmatch(r"[A-Za-z]\w*", v) for v in variables):
                self.fail(f"{token!r} does not name index variables")
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail("it is nested too deeply")
        body = self.product()
        self.depth -= 1
        return Reduce(cast("Reducer", kind), variables, body, bound)
