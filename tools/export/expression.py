"""Integer expressions as C++: the same values, and the same refusals, as `state.expr` gives.

Every operation goes through a checked function of `host.h`, so that floor division, powers and the limit of 63 bits
are those of the language and not of C++.
"""

import ast
from collections.abc import Callable, Mapping

from cuda_harness.state.expr import Expr
from cuda_harness.state.serde import parse_python

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.FloorDiv: "floor_div",
    ast.Mod: "floor_mod",
    ast.Pow: "power",
}
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
}
_FUNCTIONS = {
    "min": "min_of",
    "max": "max_of",
    "cdiv": "cdiv",
    "log2_ceil": "log2_ceil",
    "pow2_ceil": "pow2_ceil",
}


def to_cpp(expr: Expr, names: Mapping[str, str], occupancy: Callable[[str], str]) -> str:
    """Return a C++ expression of type `i64` with the value of `expr`.

    Args:
        expr: The expression; it was parsed by the allow-list of `state.expr`.
        names: How each free name is spelled in C++.
        occupancy: How the blocks of a kernel that fit one multiprocessor are asked for.

    Raises:
        KeyError: On a name that `names` lacks; the plan was not expanded before.
    """
    return _print(parse_python(expr.text, "eval").body, names, occupancy)


def _print(node: ast.AST, names: Mapping[str, str], occupancy: Callable[[str], str]) -> str:
    def inner(child: ast.AST) -> str:
        return _print(child, names, occupancy)

    match node:
        case ast.Constant(value=int() as value):
            return f"{value}LL"
        case ast.Name(id=name):
            return names[name]
        case ast.BinOp(left=left, op=op, right=right):
            return f"{_BINARY[type(op)]}({inner(left)}, {inner(right)})"
        case ast.UnaryOp(op=op, operand=operand):
            return f"sub(0LL, {inner(operand)})" if isinstance(op, ast.USub) else inner(operand)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return f"(({inner(test)}) != 0 ? {inner(body)} : {inner(orelse)})"
        case ast.Compare(left=left, ops=ops, comparators=rights):
            return _compare([inner(n) for n in (left, *rights)], [_COMPARE[type(op)] for op in ops])
        case ast.Call(func=ast.Name(id="blocks_per_sm"), args=[ast.Constant(value=str() as kernel)]):
            return occupancy(kernel)
        case ast.Call(func=ast.Name(id=name), args=args):
            listed = ", ".join(inner(a) for a in args)
            return (
                f"{_FUNCTIONS[name]}({{{listed}}})"
                if name in {"min", "max"}
                else f"{_FUNCTIONS[name]}({listed})"
            )
        case _:
            msg = f"{type(node).__name__} has no value in {ast.unparse(node)!r}"
            raise KeyError(msg)


def _compare(values: list[str], operators: list[str]) -> str:
    """Return a chain of comparisons as 0 or 1; every operand is evaluated once, as in `state.expr`."""
    if len(operators) == 1:
        return f"i64(({values[0]}) {operators[0]} ({values[1]}))"
    given = ", ".join(values)
    tests = " && ".join(f"v[{i}] {op} v[{i + 1}]" for i, op in enumerate(operators))
    return f"chain({{{given}}}, [](const i64* v) {{ return {tests}; }})"
