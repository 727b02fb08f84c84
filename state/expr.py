"""Integer expressions over dims, tunables and loop variables: the only code in JSON.

Parsed once through an allow-list over Python's `ast`; everything else is refused with the place.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from cuda_harness.state.serde import parse_python

MAX_CHARS = 1_000
MAX_NODES = 400
MAX_DEPTH = 40
LIMIT = 1 << 63
"""Values stay strictly below this in magnitude, intermediate ones too (an int64 argument must hold them)."""

_ALLOWED = (
    "use integers, dims, tunables, loop variables, num_sms, blocks_per_sm('kernel'), + - * // % ** (), "
    "comparisons, `a if c else b`, min max cdiv log2_ceil pow2_ceil"
)


class ExprError(ValueError):
    """The expression is not in the language, or has no value here (unknown name, division by zero, overflow)."""


class Occupancy(Protocol):
    """Answers `blocks_per_sm("kernel")`: resident blocks per multiprocessor on the device that runs the plan."""

    def __call__(self, kernel: str, /) -> int: ...  # noqa: D102


def cdiv(a: int, b: int) -> int:
    """Return a / b rounded up; b must be positive."""
    if b <= 0:
        msg = f"cdiv by {b}: the divisor must be positive"
        raise ExprError(msg)
    return -(-a // b)


def log2_ceil(n: int) -> int:
    """Return the smallest k with 2**k >= n; 0 for n <= 1."""
    return max(0, (n - 1).bit_length()) if n > 1 else 0


def pow2_ceil(n: int) -> int:
    """Return the smallest power of two >= n; 1 for n <= 1."""
    return 1 << log2_ceil(n)


_FUNCTIONS: dict[str, tuple[Callable[..., int], int, int]] = {
    "min": (min, 2, 16),
    "max": (max, 2, 16),
    "cdiv": (cdiv, 2, 2),
    "log2_ceil": (log2_ceil, 1, 1),
    "pow2_ceil": (pow2_ceil, 1, 1),
}
RESERVED = frozenset({*_FUNCTIONS, "blocks_per_sm", "num_sms"})
"""Names that mean something in every expression, so no dim, tensor, scalar or tunable may take them."""

_COMPARE: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
}


def _floor_div(a: int, b: int) -> int:
    if b == 0:
        msg = "division by zero"
        raise ExprError(msg)
    return a // b


def _modulo(a: int, b: int) -> int:
    if b == 0:
        msg = "modulo by zero"
        raise ExprError(msg)
    return a % b


def _power(a: int, b: int) -> int:
    if b < 0:
        msg = f"negative power {b}: expressions are integers"
        raise ExprError(msg)
    if abs(a) > 1 and b * max(1, abs(a).bit_length() - 1) > 63:
        msg = f"{a} ** {b} is too large"
        raise ExprError(msg)
    return int(a**b)


_BINARY: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: _floor_div,
    ast.Mod: _modulo,
    ast.Pow: _power,
}


class Expr:
    """One parsed integer expression: immutable, hashable, compared by its text."""

    __slots__ = ("_tree", "kernels", "names", "text")

    text: str
    names: frozenset[str]
    """Free names: dims, tunables, loop variables and possibly `num_sms`."""
    kernels: frozenset[str]
    """Kernels whose occupancy is asked for by `blocks_per_sm`."""

    def __init__(self, source: "str | int | Expr") -> None:
        if isinstance(source, Expr):
            source = source.text
        if isinstance(source, bool) or not isinstance(source, (str, int)):
            msg = f"an expression is an integer or a string, not {type(source).__name__}"
            raise ExprError(msg)
        if isinstance(source, int) and abs(source) >= LIMIT:
            msg = "integer constant is too large"
            raise ExprError(msg)
        text = str(source).strip()
        if not text or len(text) > MAX_CHARS:
            msg = "empty expression" if not text else f"expression longer than {MAX_CHARS} characters"
            raise ExprError(msg)
        try:
            tree = parse_python(text, "eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as exc:
            msg = f"{_short(text)} is not an expression: {_ALLOWED}"
            raise ExprError(msg) from exc
        names: set[str] = set()
        kernels: set[str] = set()
        for count, (node, depth) in enumerate(_walk(tree), start=1):
            if count > MAX_NODES or depth > MAX_DEPTH:
                msg = f"{_short(text)} is too deeply nested or too long"
                raise ExprError(msg)
            _admit(node, text, names, kernels)
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "names", frozenset(names))
        object.__setattr__(self, "kernels", frozenset(kernels))
        object.__setattr__(self, "_tree", tree)

    def __setattr__(self, name: str, value: object) -> None:
        msg = f"Expr is immutable: cannot set {name!r}"
        raise AttributeError(msg)

    def evaluate(self, env: Mapping[str, int], occupancy: Occupancy | None = None) -> int:
        """Return the value with the names of `env`; comparisons give 0 or 1.

        Raises:
            ExprError: On an unknown name, a division by zero, or a value beyond 63 bits; names the expression.
        """
        try:
            return _evaluate(self._tree, env, occupancy)  # type: ignore[attr-defined]
        except ExprError as exc:
            msg = f"in {self.text!r}: {exc}"
            raise ExprError(msg) from exc

    @property
    def constant(self) -> int | None:
        """The value when the text is a plain integer, else `None`."""
        return int(self.text) if self.text.lstrip("-").isdecimal() and self.text.isascii() else None

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Expr({self.text!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expr) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> tuple[type[Self], tuple[str]]:
        return (type(self), (self.text,))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda e: e.text if e.constant is None else e.constant
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "description": f"Integer expression: {_ALLOWED}.",
        }


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _walk(root: ast.AST) -> Iterator[tuple[ast.AST, int]]:
    stack = [(root, 1)]
    while stack:
        node, depth = stack.pop()
        yield node, depth
        stack.extend((child, depth + 1) for child in ast.iter_child_nodes(node))


def _admit(node: ast.AST, text: str, names: set[str], kernels: set[str]) -> None:
    """Check one node against the allow-list and collect its names."""
    match node:
        case ast.Constant(value=value):
            if type(value) is int and abs(value) < LIMIT:
                return
            if isinstance(value, str):
                return  # only legal inside blocks_per_sm; the Call case checks, evaluation refuses the rest
        case ast.Name(id=name):
            if name not in _FUNCTIONS and name != "blocks_per_sm":
                names.add(name)
            return
        case ast.BinOp(op=op) if type(op) in _BINARY:
            return
        case ast.UnaryOp(op=ast.USub() | ast.UAdd()) | ast.IfExp():
            return
        case ast.Compare(ops=ops) if all(type(op) in _COMPARE for op in ops):
            return
        case ast.Call(
            func=ast.Name(id="blocks_per_sm"), args=[ast.Constant(value=str() as kernel)], keywords=[]
        ):
            kernels.add(kernel)
            return
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            _, least, most = _FUNCTIONS[name]
            if least <= len(args) <= most and not any(isinstance(a, ast.Starred) for a in args):
                return
            msg = f"{name} takes {least} to {most} arguments in {_short(text)}"
            raise ExprError(msg)
        case ast.operator() | ast.unaryop() | ast.cmpop() | ast.Load():
            return
        case _:
            pass
    hint = (
        " (write // for integer division)"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        else ""
    )
    msg = f"{type(node).__name__} is not allowed in {_short(text)}{hint}: {_ALLOWED}"
    raise ExprError(msg)


def _evaluate(node: ast.AST, env: Mapping[str, int], occupancy: Occupancy | None) -> int:
    match node:
        case ast.Constant(value=int() as value):
            result = int(value)
        case ast.Name(id=name):
            if name not in env:
                known = ", ".join(sorted(env)) or "none"
                msg = f"unknown name {name!r} (known: {known})"
                raise ExprError(msg)
            result = int(env[name])
        case ast.BinOp(left=left, op=op, right=right):
            result = _BINARY[type(op)](_evaluate(left, env, occupancy), _evaluate(right, env, occupancy))
        case ast.UnaryOp(op=op, operand=operand):
            value = _evaluate(operand, env, occupancy)
            result = -value if isinstance(op, ast.USub) else value
        case ast.IfExp(test=test, body=body, orelse=orelse):
            chosen = body if _evaluate(test, env, occupancy) else orelse
            result = _evaluate(chosen, env, occupancy)
        case ast.Compare(left=left, ops=ops, comparators=rights):
            values = [_evaluate(n, env, occupancy) for n in (left, *rights)]
            result = int(
                all(_COMPARE[type(op)](a, b) for op, a, b in zip(ops, values, values[1:], strict=False))
            )
        case ast.Call(func=ast.Name(id="blocks_per_sm"), args=[ast.Constant(value=str() as kernel)]):
            if occupancy is None:
                msg = "blocks_per_sm is only known where the kernel runs"
                raise ExprError(msg)
            result = occupancy(kernel)
        case ast.Call(func=ast.Name(id=name), args=args):
            result = _FUNCTIONS[name][0](*(_evaluate(a, env, occupancy) for a in args))
        case _:
            msg = "text is only allowed as the kernel of blocks_per_sm"
            raise ExprError(msg)
    if abs(result) >= LIMIT:
        msg = "the value does not fit in 63 bits"
        raise ExprError(msg)
    return result
