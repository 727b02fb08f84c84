"""The formula language: what it reads, what it refuses, and that every reader sees the same tree."""

import math

import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.formula.binding import Problem
from cuda_harness.tools.formula.evaluate import Evaluation
from cuda_harness.tools.formula.functions import FUNCTIONS
from cuda_harness.tools.formula.nodes import Binary, Call, Name, Reduce, show, show_statement
from cuda_harness.tools.formula.parse import (
    FormulaError,
    longest_expression,
    parse_expression,
    parse_statement,
)

FORMULAS = (
    "y[i] = a*x[i] + y[i]",
    "c[i,j] = sum_k a[i,k]*b[k,j] + d[j]",
    "y[i,j] = exp(x[i,j] - m[i])/(sum_k exp(x[i,k] - m[i]))",
    "s = sum_{i,j} (x[i,j] - mu)^2",
    "y[i] = sum_{k<=i} x[k]",
    "e[i] = l[i] - x[i,label[i]]",
    "y[i] = where(x[i] > 0, x[i], -0.5*x[i])",
    "y[i] = -x[i]^2 - (a - (b - c))/(d/e)",
    "y[i] = x[n - 1 - i]",
    "p[i] = argmax_j abs(x[i,j])",
)


@pytest.mark.parametrize("text", FORMULAS)
def test_the_text_of_a_tree_gives_the_tree_again(text: str) -> None:
    tree = parse_statement(text)
    assert parse_statement(show_statement(tree)) == tree


def test_a_reduction_takes_the_product_and_leaves_the_sum() -> None:
    tree = parse_expression("sum_k a[k]*b[k] + c")
    assert isinstance(tree, Binary)
    assert isinstance(tree.left, Reduce)
    assert tree.right == Name("c")


def test_bars_powers_and_conditions_are_read() -> None:
    assert parse_expression("|x|") == Call("abs", (Name("x"),))
    assert show(parse_expression("x**2")) == "x^2"
    chosen = parse_expression("x if x > 0 else 0.1*x")
    assert chosen == parse_expression("x > 0 ? x : 0.1*x") == parse_expression("where(x > 0, x, 0.1*x)")


def test_missing_arguments_take_their_usual_value() -> None:
    assert show(parse_expression("leaky_relu(x)")) == "leaky_relu(x, 0.01)"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("y[i] = x[i", "']' is missing"),
        ("y[i] = nosuch(x[i])", "no function 'nosuch'"),
        ("y[i,i] = x[i]", "repeats"),
        ("y[i] = x[i] % 2", "'%' is not understood"),
        ("y[i] = exp(x[i], 2)", "takes 1 argument"),
        ("y[i] = x[i]/sum_k a[k]*b", "parentheses"),
        ("y[i] = " + "(" * 80 + "x[i]" + ")" * 80, "nested too deeply"),
        ("y[i] = " + "-" * 90 + "x[i]", "nested too deeply"),
        ("y = __import__('os')", "is not understood"),
    ],
)
def test_what_is_not_of_the_language_is_refused_with_the_place(text: str, said: str) -> None:
    with pytest.raises(FormulaError, match=said.replace("(", r"\(").replace("[", r"\[").replace("]", r"\]")):
        parse_statement(text)


def test_prose_after_a_formula_is_left_alone() -> None:
    found = longest_expression("a*x + y for all elements")
    assert found is not None
    assert (show(found[0]), found[1]) == ("a*x + y", 7)


def ir(formula: str, **shapes: list[str]) -> KernelIR:
    dims = sorted({d for s in shapes.values() for d in s})
    target = formula.split("[", maxsplit=1)[0].split("=", maxsplit=1)[0].strip()
    tensors = [
        {"name": n, "role": "out" if n == target else "in", "dtype": "float32", "shape": s}
        for n, s in shapes.items()
    ]
    step = {
        "id": "only",
        "op": "formula",
        "reads": [n for n in shapes if n != target],
        "writes": [target],
        "formula": formula,
    }
    return KernelIR.model_validate(
        {"name": "k", "dims": [{"name": d, "value": 4} for d in dims], "tensors": tensors, "steps": [step]}
    )  # fmt: skip


def test_extents_follow_from_the_shapes() -> None:
    problem = Problem(ir("c[i,j] = sum_k a[i,k]*b[k,j]", a=["m", "q"], b=["q", "n"], c=["m", "n"]))
    assert problem.bound[0].extents == {"i": "m", "j": "n", "k": "q"}


@pytest.mark.parametrize(
    ("formula", "shapes", "said"),
    [
        (
            "c[i,j] = sum_k a[i,k]*b[k,j]",
            {"a": ["m", "q"], "b": ["r", "n"], "c": ["m", "n"]},
            "runs over q and over r",
        ),
        ("y[i] = x[i,j]", {"x": ["n"], "y": ["n"]}, "1 axes, the formula gives 2"),
        ("y[i] = z[i]", {"x": ["n"], "y": ["n"]}, "no tensor"),
        ("y[i] = x[i]*alpha", {"x": ["n"], "y": ["n"]}, "neither a tensor, a scalar"),
        ("y[i] = sum_k x[i]", {"x": ["n"], "y": ["n"]}, "nothing says how far index 'k'"),
        ("y[i] = x", {"x": ["n"], "y": ["n"]}, "needs indices"),
    ],
)
def test_formulas_that_do_not_fit_their_shapes_are_refused(
    formula: str, shapes: dict[str, list[str]], said: str
) -> None:
    with pytest.raises(FormulaError, match=said):
        Problem(ir(formula, **shapes))


@pytest.mark.parametrize(
    "name", sorted(n for n, f in FUNCTIONS.items() if f.meaning and len(f.parameters) == 1)
)
def test_definitions_are_finite_where_arguments_are_large(name: str) -> None:
    problem = Problem(ir(f"y[i] = {name}(x[i])", x=["n"], y=["n"]))
    for x in (-40.0, -1.5, -1e-3, 1e-3, 0.7, 40.0):
        done = Evaluation(problem, {"n": 1}, {}, {"x": {(0,): x}})
        assert math.isfinite(done.arrays["y"][0,])


def test_known_values_of_activations() -> None:
    known = {"relu": 0.0, "sigmoid": 0.2689414213699951, "silu": -0.2689414213699951, "gelu": -0.15865525393145707,
             "softplus": 0.31326168751822286, "elu": -0.6321205588285577, "hardswish": -1 / 3, "mish": -0.3034014613018,
             "selu": -1.1113307378125625, "softsign": -0.5, "gelu_tanh": -0.15880800939172324}  # fmt: skip
    for name, value in known.items():
        problem = Problem(ir(f"y[i] = {name}(x[i])", x=["n"], y=["n"]))
        done = Evaluation(problem, {"n": 1}, {}, {"x": {(0,): -1.0}})
        assert done.arrays["y"][0,] == pytest.approx(value, rel=1e-9), name
