"""Formulas as a vote: what they can say counts, what they cannot say accuses nobody."""

from typing import Any

import numpy as np
import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.suite import Case
from cuda_harness.tools.synthesize.formula import Vote, value_at, vote
from cuda_harness.tools.synthesize.reference import Truth

X = np.array([[0.5, -1.0, 2.0], [3.0, 0.25, -0.75]], dtype=np.float32)
CASE = Case(id="c", stage="tiny", dims={"n": 2, "m": 3}, scalars={"a": 2.0}, regime="normal")


def an_ir(formula: str, *, out: list[str] | None = None, **changes: Any) -> KernelIR:
    return KernelIR.model_validate({
        "name": "t", "dims": [{"name": "n", "value": 8}, {"name": "m", "value": 8}],
        "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n", "m"]},
                    {"name": "y", "role": "out", "dtype": changes.pop("dtype", "float32"), "shape": ["n", "m"] if out is None else out}],
        "scalars": [{"name": "a", "dtype": "float32", "value": 2.0}],
        "steps": [{"id": "s", "op": "o", "reads": ["x"], "writes": ["y"], "formula": formula}], **changes,
    })  # fmt: skip


def asked(ir: KernelIR, truth: Any, *, case: Case = CASE, x: Any = X) -> Vote:
    return vote(ir, [case], {"c": {"x": x}}, {"c": Truth({"y": np.asarray(truth)}, {})})


AGREEING = [
    ("y[i,j] = a*x[i,j] + 1", None, 2.0 * X + 1),
    ("y[i] = max_j a*x[i,j]", ["n"], (2.0 * X).max(1)),
    ("y[i,j] = exp(x[i,j]) / sum_k exp(x[i,k])", None, np.exp(X.astype(float)) / np.exp(X.astype(float)).sum(1, keepdims=True)),
    ("y[i,j] = sum_{k<=j} x[i,k]", None, np.cumsum(X.astype(float), 1)),
    ("y[i] = sum_j x[i,j] * a", ["n"], 2.0 * X.astype(float).sum(1)),
    ("y = sum_{i,j} x[i,j]", ["1"], [X.astype(float).sum()]),
    ("y[i,j] = x[i,j] > 0 ? x[i,j] : a", None, np.where(X > 0, X, 2.0)),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "out", "truth"), AGREEING)
def test_a_formula_agrees_with_what_it_says(formula: str, out: list[str] | None, truth: Any) -> None:
    ir = an_ir(formula, out=out)
    right, wrong = asked(ir, truth), asked(ir, np.asarray(truth) + 0.125)

    assert (right.cases, right.against) == (1, None)
    assert "agree" in right.reason
    assert wrong.against is not None
    assert wrong.against.firm
    assert "the IR's formulas contradict the reference" in wrong.against.message
    assert "by the formulas" in wrong.against.message


NO_VOTE = [
    ("the rows in ascending order", None, "not evaluated"),
    ("y[i,j] = x[i,j+1]", None, "only an edge rule can settle"),
    ("y[i,j] = log(x[i,j])", None, "no meaning"),
    ("y[i,j] = 1 / (x[i,j] - x[i,j])", None, "no meaning"),
    ("y[i,j] = sum_{k,l} sum_{k2,l2} sum_{k3,l3} sum_{k4,l4} x[k,l]*x[k2,l2]*x[k3,l3]*x[k4,l4]", (12, 12), "too many operations"),
    ("y[i,j] = prod_k x[i,k] * a", None, "belongs to it"),
    ("y[i,j] = max_k x[i,k] * a", None, "belongs to it"),
    ("y[i,j] = x[i,j] + " + "(" * 200 + "1" + ")" * 200, None, "nested too deeply"),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "shape", "reason"), NO_VOTE)
def test_what_cannot_be_evaluated_is_no_vote(
    formula: str, shape: tuple[int, int] | None, reason: str
) -> None:
    x = X if shape is None else np.ones(shape, np.float32)
    case = CASE.model_copy(update={"dims": {"n": x.shape[0], "m": x.shape[1]}})

    found = asked(an_ir(formula), np.zeros(x.shape), case=case, x=x)

    assert (found.cases, found.against) == (0, None)
    assert reason in found.reason


def test_a_value_without_meaning_in_the_output_is_left_out() -> None:
    wrapping = asked(an_ir("y[i,j] = 300", dtype="uint8"), np.full((2, 3), 44, np.uint8))
    infinite = asked(an_ir("y[i,j] = exp(1000*x[i,j])"), np.full((2, 3), 5.0))

    assert wrapping.against is None
    assert infinite.against is not None  # exp(-1000) is finite, and it is not 5
    assert infinite.against.compared == 4


def test_undefined_elements_and_free_orders_are_not_compared() -> None:
    ir = an_ir("y[i,j] = x[i,j]")
    mask = np.zeros((2, 3), dtype=bool)
    masked = vote(ir, [CASE], {"c": {"x": X}}, {"c": Truth({"y": X + 1}, {"y": mask})})
    free = an_ir("y[i,j] = x[i,j]").model_dump(mode="json", by_alias=True)
    free["tensors"][1]["compare"] = {"mode": "set"}

    assert masked.against is None
    assert asked(KernelIR.model_validate(free), X[::-1]).against is None


def test_an_edge_rule_may_explain_a_few_elements_and_not_most() -> None:
    ir = an_ir("y[i,j] = x[i,j]", edge_rules=["the first element is zero"])
    few, most = X.astype(float), X.astype(float) + 1
    few[0, 0] = 0

    assert asked(ir, few).against is not None
    assert not asked(ir, few).against.firm  # type: ignore[union-attr]
    assert asked(ir, most).against.firm  # type: ignore[union-attr]


def test_rounding_of_values_that_cancel_is_no_contradiction() -> None:
    ir = an_ir("y[i] = log(sum_j exp(x[i,j])) - x[i,0]", out=["n"])

    assert (
        asked(ir, [0.0, 0.0], case=CASE.model_copy(update={"dims": {"n": 2, "m": 1}}), x=X[:, :1]).against
        is None
    )


def test_wild_regimes_are_not_asked() -> None:
    found = asked(an_ir("y[i,j] = x[i,j]"), X + 1, case=CASE.model_copy(update={"regime": "large"}))

    assert (found.cases, found.against) == (0, None)


def test_one_element_can_be_asked_for() -> None:
    ir = an_ir("y[i,j] = a*x[i,j]")

    assert value_at(ir, CASE, {"x": X}, "y", (1, 0)) == 6.0
    assert value_at(an_ir("whatever it is"), CASE, {"x": X}, "y", (1, 0)) is None
