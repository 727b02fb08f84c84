"""Expressions: integer arithmetic and nothing else, equal to Python's."""

import ast

from hypothesis import given
from hypothesis import strategies as st

from cuda_harness.state.expr import LIMIT, Expr, ExprError

NAMES = ("n", "m", "BLOCK")
ENV = st.fixed_dictionaries({name: st.integers(-50, 10_000) for name in NAMES})


def _joined(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pair = st.tuples(
        children, st.sampled_from(["+", "-", "*", "//", "%", "<", "<=", "==", "!=", ">", ">="]), children
    )
    return st.one_of(
        pair.map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
        children.map(lambda c: f"-({c})"),
        st.tuples(children, children).map(lambda p: f"min({p[0]}, {p[1]})"),
        st.tuples(children, children).map(lambda p: f"max({p[0]}, {p[1]})"),
        st.tuples(children, children, children).map(lambda p: f"({p[0]} if {p[1]} else {p[2]})"),
        st.tuples(children, st.integers(0, 4)).map(lambda p: f"(({p[0]}) ** {p[1]})"),
    )


TEXTS = st.recursive(st.one_of(st.integers(0, 999).map(str), st.sampled_from(NAMES)), _joined, max_leaves=12)


@given(TEXTS, ENV)
def test_the_value_is_pythons(text: str, env: dict[str, int]) -> None:
    expression = Expr(text)
    try:
        value = expression.evaluate(env)
    except ExprError as exc:
        reason = str(exc)
    else:
        reason = ""
    if reason:
        assert any(word in reason for word in ("zero", "too large", "63 bits"))
        return
    scope = {"__builtins__": {}, "min": min, "max": max, **env}
    assert value == int(eval(text, scope))  # noqa: S307 - our own generated text, to compare with
    assert abs(value) < LIMIT


@given(st.text(max_size=60))
def test_any_text_is_refused_or_is_arithmetic(text: str) -> None:
    try:
        expression = Expr(text)
    except ExprError:
        return
    arithmetic = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp, ast.Call, ast.Name, ast.Constant,
                  ast.operator, ast.unaryop, ast.cmpop, ast.expr_context)  # fmt: skip
    assert all(isinstance(n, arithmetic) for n in ast.walk(ast.parse(expression.text, mode="eval")))


@given(
    st.sampled_from(
        ["__import__('os')", "n.real", "n[0]", "(lambda: 1)()", "[1]", "'a'", "n / 2", "n and m", "f(n)"]
    ),
    TEXTS,
)
def test_a_foreign_construct_spoils_any_expression(foreign: str, text: str) -> None:
    try:
        value = Expr(f"({text}) + ({foreign})").evaluate({"n": 1, "m": 2, "BLOCK": 3})
    except ExprError:
        return
    raise AssertionError((foreign, value))


@given(st.integers(2, 9), st.integers(2, 9), st.integers(20, 99))
def test_huge_powers_are_refused_before_they_are_computed(a: int, b: int, c: int) -> None:
    try:
        Expr(f"{a} ** {b} ** {c}").evaluate({})
    except ExprError:
        return
    raise AssertionError


@given(st.integers(41, 400), st.sampled_from(["(-%s)", "(1 + %s)", "min(1, %s)"]))
def test_deep_nesting_is_refused(depth: int, layer: str) -> None:
    text = "n"
    for _ in range(depth):
        text = layer % text
    try:
        Expr(text)
    except ExprError:
        return
    raise AssertionError(depth)


@given(TEXTS)
def test_text_round_trips(text: str) -> None:
    assert Expr(str(Expr(text))) == Expr(text)
    assert Expr(text).names <= set(NAMES)
