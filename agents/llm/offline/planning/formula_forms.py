"""Forms of formulas that are better written another way: small arguments of exp and log, reversed indices."""

import dataclasses

from cuda_harness.tools.formula.nodes import (
    Access,
    Binary,
    Call,
    Name,
    Negate,
    Node,
    Num,
    Reduce,
    Statement,
    bound_variables,
    free_variables,
    rebuild,
    substitute,
    walk,
)


def reversed_index(node: Node, variables: set[str]) -> str | None:
    """Return i when the index is `n - 1 - i`, `None` when it is anything else."""
    match node:
        case Binary("-", Binary("-", Name(_), Num(1.0, _)), Name(variable)) if variable in variables:
            return variable
        case _:
            return None


def with_own_indices(indices: tuple[str, ...], value: Node) -> Node:
    """Return a right side in which a sum over an index of the left side has an index of its own: `y[k] = x[k]/sum_k x[k]`.

    Only where the index is also met outside of the sum: else the left side would be the mistake.
    """
    taken = {
        *indices,
        *bound_variables(value),
        *(n.name for n in walk(value) if isinstance(n, Name | Access)),
    }
    outside = free_variables(value, frozenset(indices))

    def fresh(name: str) -> Name:
        while name in taken:
            name += "_"
        taken.add(name)
        return Name(name)

    def settle(node: Node) -> Node:
        node = rebuild(node, settle)
        if not isinstance(node, Reduce) or node.bound is not None:
            return node
        own = {v: fresh(v) for v in node.variables if v in indices and v in outside}
        if not own:
            return node
        variables = tuple(own[v].name if v in own else v for v in node.variables)
        return dataclasses.replace(node, variables=variables, body=substitute(node.body, dict(own)))

    return settle(value)


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
        variable = reversed_index(node, set(dims_of))
        if variable is not None:
            return Binary("-", Binary("-", Name(dims_of[variable]), Num(1.0, "1")), Name(variable))
        return rebuild(node, settle)

    return [Statement(s.target, s.indices, settle(s.value)) for s in statements]
