import copy
import pickle

import pytest

from cuda_harness.state.expr import Expr, ExprError, cdiv, log2_ceil, pow2_ceil


@pytest.mark.parametrize(
    ("text", "env", "value"),
    [
        ("cdiv(rows*cols, BLOCK)", {"rows": 3, "cols": 5, "BLOCK": 4}, 4),
        ("a if a > b else b", {"a": 1, "b": 2}, 2),
        ("1 < a <= 3", {"a": 3}, 1),
        ("1 < a <= 3", {"a": 4}, 0),
        ("-a // 2", {"a": 3}, -2),
        ("-7 % 4", {}, 1),
        ("2 ** log2_ceil(n)", {"n": 1000}, 1024),
        ("pow2_ceil(n) + log2_ceil(1)", {"n": 1}, 1),
        ("min(a, b, 7)", {"a": 9, "b": 8}, 7),
        ("a if 1 else 1 // 0", {"a": 5}, 5),
    ],
)
def test_values(text: str, env: dict[str, int], value: int) -> None:
    assert Expr(text).evaluate(env) == value


@pytest.mark.parametrize(
    "text",
    [
        "", "1/2", "1.5", "True", "a.b", "a[0]", "[1]", "(1, 2)", "{1}", "f(x)", "lambda: 1", "a and b", "not a",
        "'x'", "f'{a}'", "__import__('os')", "min(*a)", "min(a)", "cdiv(1,2,3)", "cdiv(a=1, b=2)", "a := 1", "a @ b",
        "a << 1", "~a", "a is b", "a in b", "await a", "1j", "blocks_per_sm(k)", "blocks_per_sm('k', 1)", "0x" + "f" * 20,
        "-(" * 90 + "1" + ")" * 90, "1+" * 500 + "1", "-" * 60 + "1", "9" * 2000, "a\x00b", "a if b", "print", 1.5,
        None, True,
    ],
)  # fmt: skip
def test_everything_else_is_refused(text: object) -> None:
    with pytest.raises(ExprError):
        Expr(text).evaluate({"a": 1, "b": 2})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "env"),
    [
        ("1 // a", {"a": 0}),
        ("1 % a", {"a": 0}),
        ("2 ** 63", {}),
        ("9 ** 9 ** 9", {}),
        ("2 ** (0 - 1)", {}),
        ("cdiv(1, a)", {"a": 0}),
        ("a * a", {"a": 1 << 40}),
        ("unknown", {}),
        ("blocks_per_sm('k')", {}),
    ],
)
def test_no_value_is_an_error_that_names_the_expression(text: str, env: dict[str, int]) -> None:
    with pytest.raises(ExprError, match=r"^in ['\"]"):
        Expr(text).evaluate(env)


def test_occupancy_is_asked_by_kernel_name() -> None:
    expression = Expr("num_sms * blocks_per_sm('k')")
    assert expression.kernels == {"k"}
    assert expression.evaluate({"num_sms": 10}, lambda kernel: {"k": 3}[kernel]) == 30


def test_expressions_are_immutable_values() -> None:
    expression = Expr("a + 1")
    with pytest.raises(AttributeError):
        expression.text = "b"
    assert copy.deepcopy(expression) == pickle.loads(pickle.dumps(expression)) == expression  # noqa: S301 - our own
    assert len({expression, Expr("a + 1"), Expr(3), Expr("3")}) == 2


def test_helpers_at_the_edges() -> None:
    assert [log2_ceil(n) for n in (0, 1, 2, 3, 4, 5)] == [0, 0, 1, 2, 2, 3]
    assert [pow2_ceil(n) for n in (0, 1, 2, 3, 5)] == [1, 1, 2, 4, 8]
    assert cdiv(0, 5) == 0
