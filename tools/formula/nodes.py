"""The syntax tree of a formula, and the walks that every reader of it needs."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

Reducer = Literal["sum", "mean", "prod", "max", "min", "argmax", "argmin"]
REDUCERS: tuple[Reducer, ...] = ("argmax", "argmin", "sum", "mean", "prod", "max", "min")


@dataclass(frozen=True)
class Num:
    """A constant; `text` is how it was written."""

    value: float
    text: str


@dataclass(frozen=True)
class Name:
    """A scalar, a dim, a one-element tensor, or an index variable used as a number."""

    name: str


@dataclass(frozen=True)
class Access:
    """One element of a tensor or an intermediate."""

    name: str
    indices: tuple["Node", ...]


@dataclass(frozen=True)
class Call:
    """A function of the table in `functions`."""

    name: str
    args: tuple["Node", ...]


@dataclass(frozen=True)
class Binary:
    """`+ - * / ^` or a comparison (1 or 0)."""

    op: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True)
class Negate:
    """Minus."""

    operand: "Node"


@dataclass(frozen=True)
class Reduce:
    """A reduction of `body` over index variables; with `bound`, the one variable runs up to another (a scan)."""

    kind: Reducer
    variables: tuple[str, ...]
    body: "Node"
    bound: tuple[Literal["<", "<="], str] | None = None


Node = Num | Name | Access | Call | Binary | Negate | Reduce


@dataclass(frozen=True)
class Statement:
    """`target[indices] = value`; every index on the left is a plain variable."""

    target: str
    indices: tuple[str, ...]
    value: Node


def children(node: Node) -> tuple[Node, ...]:
    """Return the direct parts of a node."""
    match node:
        case Access(_, indices):
            return indices
        case Call(_, args):
            return args
        case Binary(_, left, right):
            return (left, right)
        case Negate(operand):
            return (operand,)
        case Reduce():
            return (node.body,)
        case _:
            return ()


def walk(node: Node) -> Iterator[Node]:
    """Yield the node and everything below it, outermost first."""
    yield node
    for child in children(node):
        yield from walk(child)


def rebuild(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return the node with `change` applied to each of its direct parts."""
    match node:
        case Access(_, indices):
            return replace(node, indices=tuple(change(i) for i in indices))
        case Call(_, args):
            return replace(node, args=tuple(change(a) for a in args))
        case Binary(_, left, right):
            return replace(node, left=change(left), right=change(right))
        case Negate(operand):
            return replace(node, operand=change(operand))
        case Reduce():
            return replace(node, body=change(node.body))
        case _:
            return node


def substitute(node: Node, names: dict[str, Node]) -> Node:
    """Return the node with bare names replaced; variables bound inside stay."""
    if isinstance(node, Name):
        return names.get(node.name, node)
    if isinstance(node, Reduce):
        names = {k: v for k, v in names.items() if k not in node.variables}
    return rebuild(node, lambda part: substitute(part, names))


def accesses(node: Node) -> list[Access]:
    """Return all tensor accesses, in order of appearance, those inside indices included."""
    return [n for n in walk(node) if isinstance(n, Access)]


def free_variables(node: Node, variables: frozenset[str]) -> frozenset[str]:
    """Return which of `variables` occur freely in the node."""
    if isinstance(node, Name):
        return frozenset({node.name}) & variables
    found: frozenset[str] = frozenset()
    for child in children(node):
        found |= free_variables(child, variables)
    if isinstance(node, Reduce):
        found -= frozenset(node.variables)
        if node.bound is not None and node.bound[1] in variables:
            found |= {node.bound[1]}
    return found


def bound_variables(node: Node) -> frozenset[str]:
    """Return the variables of all reductions in the node."""
    return frozenset(v for n in walk(node) if isinstance(n, Reduce) for v in n.variables)


_LEVEL = {"<": 1, "<=": 1, ">": 1, ">=": 1, "==": 1, "!=": 1, "+": 2, "-": 2, "*": 3, "/": 3, "^": 5}


def show(node: Node, level: int = 0) -> str:
    """Return the formula's text; parsing it gives the same tree."""
    match node:
        case Num():
            return node.text
        case Name(name):
            return name
        case Access(name, indices):
            return f"{name}[{','.join(show(i) for i in indices)}]"
        case Call(name, args):
            return f"{name}({', '.join(show(a) for a in args)})"
        case Negate(operand):
            text = f"-{show(operand, 4)}"
            return f"({text})" if level > 2 else text
        case Binary(op, left, right):
            own = _LEVEL[op]
            glue = op if op in "*/^" else f" {op} "
            left_level, right_level = (own + 1, 5) if op == "^" else (own, own + 1)
            text = f"{show(left, left_level)}{glue}{show(right, right_level)}"
            return f"({text})" if own < level else text
        case Reduce():
            names = ",".join(node.variables)
            if node.bound is not None:
                subscript = f"{{{names}{node.bound[0]}{node.bound[1]}}}"
            else:
                subscript = names if len(names) == 1 else f"{{{names}}}"
            text = f"{node.kind}_{subscript} {show(node.body, 3)}"
            return f"({text})" if level > 2 else text


def show_statement(statement: Statement) -> str:
    """Return the statement's text."""
    place = f"[{','.join(statement.indices)}]" if statement.indices else ""
    return f"{statement.target}{place} = {show(statement.value)}"
