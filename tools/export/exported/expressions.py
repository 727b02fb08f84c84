"""Integer expressions over sizes: the few operations that a plan may name are evaluated, and nothing else is."""

import ast
from collections.abc import Callable, Mapping

_LIMIT = 1 << 63


class KernelError(ValueError):
    """An argument does not fit the kernel; the caller acts."""


def _divided(b: int, result: Callable[[], int]) -> int:
    if b == 0:
        msg = "division by zero in a size"
        raise KernelError(msg)
    return result()


def evaluate(text: str | int, names: Mapping[str, int], occupancy: Callable[[str], int]) -> int:
    """Return the value of an integer expression; raises KernelError where it has none."""
    return _value(ast.parse(str(text).strip(), mode="eval").body, names, occupancy)


def _value(node: ast.AST, names: Mapping[str, int], occupancy: Callable[[str], int]) -> int:
    def inner(child: ast.AST) -> int:
        return _value(child, names, occupancy)

    result: int
    match node:
        case ast.Constant(value=int() as value):
            result = value
        case ast.Name(id=name) if name in names:
            result = names[name]
        case ast.BinOp(left=left, op=op, right=right):
            result = _binary(op, inner(left), inner(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            result = -inner(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            result = inner(operand)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            result = inner(body) if inner(test) else inner(orelse)
        case ast.Compare(left=left, ops=ops, comparators=rights):
            values = [inner(n) for n in (left, *rights)]
            result = int(all(_compared(op, a, b) for op, a, b in zip(ops, values, values[1:], strict=False)))
        case ast.Call(func=ast.Name(id="blocks_per_sm"), args=[ast.Constant(value=str() as kernel)]):
            result = occupancy(kernel)
        case ast.Call(func=ast.Name(id=name), args=args):
            result = _called(name, [inner(a) for a in args])
        case _:
            msg = f"{ast.unparse(node)!r} has no value"
            raise KernelError(msg)
    if abs(result) >= _LIMIT:
        msg = "a size does not fit in 63 bits"
        raise KernelError(msg)
    return result


def _binary(op: ast.operator, a: int, b: int) -> int:
    match op:
        case ast.Add():
            return a + b
        case ast.Sub():
            return a - b
        case ast.Mult():
            return a * b
        case ast.FloorDiv():
            return _divided(b, lambda: a // b)
        case ast.Mod():
            return _divided(b, lambda: a % b)
        case ast.Pow() if b >= 0 and (abs(a) < 2 or b * (a.bit_length() - 1) <= 63):
            return int(a**b)
    msg = f"{type(op).__name__} of {a} and {b} has no value"
    raise KernelError(msg)


def _compared(op: ast.cmpop, a: int, b: int) -> bool:
    match op:
        case ast.Lt():
            return a < b
        case ast.LtE():
            return a <= b
        case ast.Gt():
            return a > b
        case ast.GtE():
            return a >= b
        case ast.Eq():
            return a == b
        case _:
            return a != b


def _called(name: str, values: list[int]) -> int:
    match name, values:
        case "min", [_, *_]:
            return min(values)
        case "max", [_, *_]:
            return max(values)
        case "cdiv", [a, b] if b > 0:
            return -(-a // b)
        case "log2_ceil" | "pow2_ceil", [n]:
            bits = (n - 1).bit_length() if n > 1 else 0
            return bits if name == "log2_ceil" else 1 << bits
    msg = f"{name}({', '.join(map(str, values))}) has no value"
    raise KernelError(msg)


def solved(text: str, size: int, unknown: set[str], dims: Mapping[str, int]) -> dict[str, int]:
    """Return the one unknown size in a linear expression that has the value `size`; empty where there is no such."""
    names = {n.id for n in ast.walk(ast.parse(text, mode="eval")) if isinstance(n, ast.Name)} & unknown
    if len(names) != 1:
        return {}
    name = names.pop()

    def at(n: int) -> int:
        return evaluate(text, {**dims, name: n}, lambda _kernel: 1)

    try:
        step = at(1025) - at(1024)
        found = 1024 + (size - at(1024)) // step if step else -1
        return {name: found} if found >= 0 and at(found) == size else {}
    except KernelError:
        return {}
