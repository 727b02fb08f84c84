"""Properties: read from a reply, held against the reference first, exact on grids of eighths."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.suite import Inputs, Property
from cuda_harness.tools.execute import sandbox
from cuda_harness.tools.synthesize.properties import read_properties, settle, violation, write_properties
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.synthesize.suite import Suite

contained = pytest.mark.skipif(not sandbox.probe().contains, reason="seccomp filters do not work here")


def an_ir(*, dtype: str = "float32", shape: tuple[str, ...] = ("n", "n")) -> KernelIR:
    return KernelIR.model_validate({
        "name": "t", "dims": [{"name": "n", "value": 40}],
        "tensors": [{"name": "x", "role": "in", "dtype": dtype, "shape": ["n", "n"]},
                    {"name": "i", "role": "in", "dtype": "int32", "shape": ["n"], "unused": True},
                    {"name": "y", "role": "out", "dtype": dtype, "shape": list(shape)}],
    })  # fmt: skip


def prop(kind: str, **more: Any) -> Property:
    return Property.model_validate({"kind": kind, "output": "y", **more})


A = np.array([[1.0, 2.0], [2.0, 5.0]])
HOLDS = [
    (prop("rows_sum_to", value=1.0), [A / A.sum(1, keepdims=True)], [A]),
    (prop("rows_sum_to", value=2.0, axis=0), [2 * A / A.sum(0)], [A]),
    (prop("permutation_of", tensor="x"), [A[::-1]], [A + 1]),
    (prop("permutation_of", tensor="x", axis=1), [A[:, ::-1]], [A[::-1]]),
    (prop("symmetric"), [A], [A[::-1]]),
    (prop("nonnegative"), [A], [-A]),
    (prop("in_range", low=1, high=5), [A], [A + 1]),
    (prop("in_range", high=5), [A - 9], [A + 1]),
    (prop("linear_in", tensor="x"), [A, 3 * A, 4 * A], [A, 3 * A, 5 * A]),
    (prop("homogeneous_in", tensor="x", degree=2), [A, 4 * A], [A, 2 * A]),
    (prop("shift_invariant_in", tensor="x"), [A, A], [A, A + 1]),
    (prop("monotone_in", tensor="x"), [A, A + 1], [A, A - 1]),
    (prop("idempotent", tensor="x"), [A, A], [A, 2 * A]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("claim", "right", "wrong"), HOLDS, ids=lambda v: v.kind if isinstance(v, Property) else ""
)
def test_each_kind_tells_right_from_wrong(claim: Property, right: list[Any], wrong: list[Any]) -> None:
    slack = [np.full((2, 2), 1e-12)] * len(right)

    assert violation(claim, right, slack, {"x": A}) is None
    broken = violation(claim, wrong, slack, {"x": A})
    assert broken is not None
    assert broken.startswith(claim.words)


@pytest.mark.parametrize(
    ("claim", "_right", "wrong"), HOLDS, ids=lambda v: v.kind if isinstance(v, Property) else ""
)
def test_slack_forgives(claim: Property, _right: list[Any], wrong: list[Any]) -> None:
    assert violation(claim, wrong, [np.full((2, 2), 99.0)] * len(wrong), {"x": A}) is None


def test_nothing_is_said_of_values_that_are_not_finite() -> None:
    assert violation(prop("nonnegative"), [np.array([-1.0, np.nan])], [np.zeros(2)], {}) is None


UNFIT = [
    ({"kind": "commutes", "output": "y"}, "not a property"),
    ({"kind": "symmetric", "output": "z"}, "no output"),
    ({"kind": "rows_sum_to", "output": "y", "axis": 2}, "no axis 2"),
    ({"kind": "in_range", "output": "y"}, "neither low nor high"),
    ({"kind": "linear_in", "output": "y"}, "no input"),
    ({"kind": "linear_in", "output": "y", "tensor": "i"}, "no floating-point numbers"),
    ({"kind": "permutation_of", "output": "y", "tensor": "i"}, "differ in shape"),
    ({"kind": "linear_in", "output": "y", "tensor": "x", "why": "it is"}, "not a property"),
    (7, "not a property"),
]  # fmt: skip


@pytest.mark.parametrize(("claim", "note"), UNFIT)
def test_what_is_no_property_here_is_noted(claim: Any, note: str) -> None:
    found, notes = read_properties(an_ir(), Inputs(), [claim])

    assert found == []
    assert note in notes[0]


def test_a_domain_is_not_left() -> None:
    specs = Inputs.from_json({"x": {"distribution": "uniform"}}, where="w")
    found, notes = read_properties(
        an_ir(),
        specs,
        [{"kind": "linear_in", "output": "y", "tensor": "x"}, {"kind": "nonnegative", "output": "y"}],
    )

    assert [p.kind for p in found] == ["nonnegative"]
    assert "domain" in notes[0]


@pytest.mark.parametrize("data", [None, [], "none", {"a": 1}])
def test_no_properties_are_none(data: Any) -> None:
    assert read_properties(an_ir(), Inputs(), data)[0] == []


@pytest.fixture(scope="module")
def runner() -> Iterator[ReferenceRunner]:
    made = ReferenceRunner()
    yield made
    made.close()


def reference(body: str) -> str:
    return f"import numpy as np\ndef reference(inputs, dims, scalars):\n    x = inputs['x'].astype(np.float64)\n    return {{'y': {body}}}\n"


@contained
@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("3*x", {"linear_in", "homogeneous_in", "monotone_in"}),
        ("np.maximum(x, 0)", {"nonnegative", "homogeneous_in", "monotone_in", "idempotent"}),
        (
            "np.exp(x - x.max(1, keepdims=True)) / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)",
            {"nonnegative", "in_range", "rows_sum_to", "shift_invariant_in"},
        ),
        ("np.sort(x, axis=1)", {"permutation_of", "homogeneous_in", "monotone_in", "idempotent"}),
        ("x @ x.T", {"symmetric"}),
    ],
)
def test_the_reference_keeps_what_it_has_and_drops_the_rest(
    runner: ReferenceRunner, body: str, kept: set[str]
) -> None:
    tensor = {"tensor": "x"}
    claims = [
        prop("rows_sum_to", value=1.0), prop("permutation_of", **tensor), prop("symmetric"), prop("nonnegative"),
        prop("in_range", low=0, high=1), prop("linear_in", **tensor), prop("homogeneous_in", **tensor),
        prop("shift_invariant_in", **tensor), prop("monotone_in", **tensor), prop("idempotent", **tensor),
    ]  # fmt: skip
    suite = Suite(an_ir(), reference(body), runner=runner, seed=4)

    found, notes = settle(suite, claims)

    assert {p.kind for p in found} == kept
    assert len(notes) == len(claims) - len(kept)
    assert all("the reference violates it" in n for n in notes)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_changed_inputs_are_exact(runner: ReferenceRunner, dtype: str) -> None:
    suite = Suite(an_ir(dtype=dtype), reference("x"), runner=runner, seed=4)
    base = suite.property_bases()[0]
    drawn = {c: np.asarray(suite.inputs(base.model_copy(update={"id": f"{base.id}-{c}-x", "change": c, "changed": "x"}))["x"]).astype(float)
             for c in ("other", "sum", "doubled", "shifted", "raised")}  # fmt: skip
    x = np.asarray(suite.inputs(base)["x"]).astype(float)

    assert (drawn["sum"] == x + drawn["other"]).all()
    assert (drawn["doubled"] == 2 * x).all()
    assert (drawn["shifted"] == x + 2).all()
    assert (drawn["raised"] >= x).all()
    assert (drawn["raised"] > x).any()


def test_properties_lie_in_the_suites_folder(tmp_path: Path, runner: ReferenceRunner) -> None:
    import json

    claims = (prop("symmetric"), prop("in_range", low=0, high=2.5))
    (tmp_path / "properties.json").write_text(json.dumps(write_properties(claims)))

    assert Suite(an_ir(), "r", runner=runner, seed=1, folder=tmp_path).properties == claims
    (tmp_path / "properties.json").write_text('[{"kind": "none"}]')
    with pytest.raises(ConfigError, match="holds no properties"):
        Suite(an_ir(), "r", runner=runner, seed=1, folder=tmp_path)
