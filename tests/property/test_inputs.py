"""Drawn sizes and inputs: inside every rule of the IR and of inputs.json, reproducible, different from case to case."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import FLOATS, INTEGERS
from cuda_harness.state.suite import Case, Inputs
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.synthesize.cases import SHAPES_WORK, TINY_WORK, CasePlan
from cuda_harness.tools.synthesize.inputs import draw, scalars_of
from cuda_harness.tools.synthesize.regimes import regimes_of
from cuda_harness.tools.synthesize.shapes import admitted, scaled_target, shapes, work


def make_ir(dims: list[dict[str, Any]], constraints: tuple[str, ...] = (), **more: Any) -> KernelIR:
    names = [d["name"] for d in dims]
    tensors = more.pop("tensors", None) or [
        {"name": "x_", "role": "in", "dtype": more.pop("dtype", "float32"), "shape": names},
        {"name": "y_", "role": "out", "dtype": "float32", "shape": names[:1]},
    ]
    return KernelIR.model_validate(
        {"schema": "cuda-harness/ir/1", "name": "k", "dims": dims, "constraints": list(constraints), "tensors": tensors, **more}
    )  # fmt: skip


@st.composite
def a_dim(draw_: st.DrawFn, name: str) -> dict[str, Any]:
    step = draw_(st.sampled_from([1, 1, 1, 2, 4, 16, 24]))
    power = draw_(st.booleans()) and step in {1, 2, 4, 16}
    low = draw_(st.integers(0, 40))
    sizes = [n for n in range(low, 5_000) if n % step == 0 and (not power or n & (n - 1) == 0)]
    value = draw_(st.sampled_from(sizes))
    highest = draw_(st.one_of(st.none(), st.sampled_from([n for n in sizes if n >= value])))
    fixed = draw_(st.integers(0, 5)) == 0
    return {
        "name": name,
        "value": value,
        "min": low,
        "max": highest,
        "multiple_of": step,
        "power_of_two": power,
        "fixed": fixed,
    }


@given(dims=st.integers(1, 3).flatmap(lambda n: st.tuples(*(a_dim(name) for name in "abc"[:n]))), seed=st.integers(0, 2**32),
       tunables=st.lists(st.integers(2, 1024), max_size=4))  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_sizes_keep_every_rule_and_are_never_missing(
    dims: tuple[dict[str, Any], ...], seed: int, tunables: list[int]
) -> None:
    ir = make_ir(list(dims))

    found = shapes(ir, tunables, count=8, budget=100_000, seed=seed)

    assert found
    assert all(admitted(ir, s) for s in found)
    assert len(found) == 1 or sum(work(ir, s) for s in found) <= 100_000
    assert len({tuple(s.values()) for s in found}) == len(found)


@given(ratio=st.integers(1, 9), target=st.integers(1, 40), seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_constraints_between_dims_are_solved(ratio: int, target: int, seed: int) -> None:
    ir = make_ir(
        [{"name": "q", "value": ratio * target}, {"name": "kv", "value": target}], (f"q == {ratio} * kv",)
    )

    found = shapes(ir, (), count=5, budget=50_000, seed=seed)

    assert found
    assert all(s["q"] == ratio * s["kv"] for s in found)
    assert len(found) > 1, "more sizes than one satisfy it"


def test_a_chain_of_constraints_is_solved() -> None:
    dims = [{"name": "heads", "value": 32}, {"name": "groups", "value": 8}, {"name": "width", "value": 4096}]
    ir = make_ir(dims, ("heads % groups == 0", "width == 128 * heads"))

    found = shapes(ir, (), count=6, budget=1_000_000_000, seed=5)

    assert len(found) >= 3
    assert all(s["width"] == 128 * s["heads"] and s["heads"] % s["groups"] == 0 for s in found)


def test_what_the_shapes_stage_covers() -> None:
    ir = make_ir([{"name": "rows", "value": 4096, "min": 0}, {"name": "cols", "value": 1024}])
    runs = [shapes(ir, [256], count=14, budget=3_000_000, seed=seed) for seed in range(20)]

    for found in runs:
        assert any(0 in s.values() for s in found), "zero counts where min is 0"
        assert any(s["rows"] != s["cols"] and min(s.values()) > 4 for s in found), (
            "a matrix that is not square"
        )
        assert any(s["cols"] % 4 for s in found), "a tail for every vector width"
        assert any(s["cols"] % 32 == 1 or s["cols"] % 32 == 31 for s in found)
    assert any({255, 257} & {n for s in found for n in s.values()} for found in runs), "next to the tunable"
    assert len({str(r) for r in runs}) == len(runs), "sizes depend on the secret seed"


def many_dims(count: int, least: int) -> KernelIR:
    """A product in matrix form: all dims but two make the rows, as a convolution of the caller's has it."""
    names = "abcdefgh"[:count]
    rows, inner, columns = "*".join(names[:-2]), names[-2], f"8*{names[-1]}"
    return KernelIR.model_validate({
        "name": "many", "dims": [{"name": n, "value": 16, "min": least} for n in names],
        "tensors": [
            {"name": "x", "role": "in", "dtype": "float32", "shape": [rows, inner]},
            {"name": "w", "role": "in", "dtype": "float32", "shape": [inner, columns]},
            {"name": "y", "role": "out", "dtype": "float32", "shape": [rows, columns]},
        ],
        "cost": {"flops": f"2*{rows}*{inner}*{columns}", "bytes": "4"},
    })  # fmt: skip


@pytest.mark.parametrize("least", [0, 1])
@pytest.mark.parametrize("count", [4, 5, 6, 8])
def test_a_suite_of_many_dims_is_of_sizes_with_elements(count: int, least: int) -> None:
    ir = many_dims(count, least)
    for seed in range(5):
        plan = CasePlan(ir, Inputs(), seed)
        for stage, most in (("tiny", 6 * TINY_WORK), ("shapes", SHAPES_WORK)):
            sizes = [c.dims for c in plan.cases(stage)]  # type: ignore[arg-type]
            drawn = [s for s in sizes if max(s.values()) < 1 << 15]
            assert sum(work(ir, s) for s in drawn) <= most
            full = [s for s in drawn if 0 not in s.values()]
            assert len(full) >= 5, (stage, sizes)
            for name in ir.target_dims:
                assert len({s[name] for s in full}) >= (2 if count == 8 else 3), (stage, name, full)
                alone = [s for s in drawn if s[name] == 0 and list(s.values()).count(0) == 1]
                assert len(alone) == (least == 0), (stage, name, drawn)
            assert any(len(set(s.values())) >= 3 for s in full), "dims are apart"
        for case in [*plan.cases("values"), *plan.cases("repeat"), *plan.further(1)]:
            assert 0 not in case.dims.values()
        assert any(0 not in c.dims.values() for c in plan.quorum())


@given(budget=st.integers(1, 10**7))
@settings(deadline=None)
def test_a_scaled_target_keeps_the_rules(budget: int) -> None:
    ir = make_ir(
        [
            {"name": "m", "value": 4096, "multiple_of": 16},
            {"name": "n", "value": 1000},
            {"name": "k", "value": 64, "fixed": True},
        ]
    )

    sizes = scaled_target(ir, budget)

    assert admitted(ir, sizes)
    assert sizes["k"] == 64


TYPES = sorted(FLOATS | INTEGERS | {"bool"})


@pytest.mark.parametrize("dtype", TYPES)
def test_every_regime_of_every_type_is_drawn_exactly(dtype: str) -> None:
    ir = make_ir([{"name": "n", "value": 33}, {"name": "m", "value": 5}], dtype=dtype)
    for regime in regimes_of(ir, Inputs()):
        case = Case(id=f"c-{regime}", stage="values", dims={"n": 33, "m": 5}, regime=regime, seed=7)
        value = draw(ir, Inputs(), case)["x_"]
        again = draw(ir, Inputs(), case)["x_"]

        assert value.dtype == np_dtype(dtype)
        assert value.shape == (33, 5)
        assert value.flags.c_contiguous
        assert value.tobytes() == again.tobytes(), "a case is reproducible"
        other = draw(ir, Inputs(), case.model_copy(update={"seed": 8}))["x_"]
        assert regime == "equal" or value.tobytes() != other.tobytes(), "another seed, other data"
        if dtype in FLOATS:
            assert np.isfinite(value.astype(np.float64)).all(), "finite unless the IR says propagate"


def test_nonfinite_values_only_where_they_propagate() -> None:
    dims = [{"name": "n", "value": 100}]

    assert "nonfinite" not in regimes_of(make_ir(dims), Inputs())
    ir = make_ir(dims, numerics={"nonfinite": "propagate"})
    assert "nonfinite" in regimes_of(ir, Inputs())
    value = draw(ir, Inputs(), Case(id="c", stage="values", dims={"n": 100}, regime="nonfinite", seed=1))[
        "x_"
    ]
    assert np.isnan(value).any()
    assert np.isposinf(value).any()
    assert np.isneginf(value).any()


DOMAINS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "normal": ("float32", {"mean": 5, "std": 0.5}, lambda a: abs(a.mean() - 5) < 0.5),
    "uniform": ("float32", {"low": -2, "high": -1}, lambda a: ((a >= -2) & (a <= -1)).all()),
    "integers": ("int32", {"low": 0, "high": "n"}, lambda a: ((a >= 0) & (a < 40)).all()),
    "sorted": ("float32", {}, lambda a: (np.diff(a, axis=-1) >= 0).all()),
    "permutation": ("int32", {}, lambda a: (np.sort(a, axis=-1) == np.arange(a.shape[-1])).all()),
    "one_hot": ("float32", {}, lambda a: ((a.sum(-1) == 1) & (a.max(-1) == 1)).all()),
    "choice": ("float32", {"values": [0.5, 2.0]}, lambda a: np.isin(a, [0.5, 2.0]).all()),
    "simplex": ("float64", {"axis": -1}, lambda a: np.allclose(a.sum(-1), 1) and (a >= 0).all()),
    "positive": ("float32", {}, lambda a: (a > 0).all()),
    "spd": (
        "float64",
        {},
        lambda a: (np.linalg.eigvalsh(a) > 0).all() and np.allclose(a, a.swapaxes(-1, -2)),
    ),
}


@pytest.mark.parametrize("name", DOMAINS)
@pytest.mark.parametrize(
    "regime", ["normal", "ties", "equal", "sorted", "negated", "large", "offset", "outlier", "extremes"]
)
def test_a_given_distribution_is_a_domain_in_every_regime(name: str, regime: str) -> None:
    dtype, spec, holds = DOMAINS[name]
    ir = make_ir([{"name": "n", "value": 40}], tensors=[
        {"name": "x_", "role": "in", "dtype": dtype, "shape": [3, "n", "n"]}, {"name": "y_", "role": "out", "dtype": "float32"}])  # fmt: skip
    specs = Inputs.from_json({"x_": {"distribution": name, **spec}}, where="inputs.json")

    value = draw(ir, specs, Case(id=regime, stage="values", dims={"n": 40}, regime=regime, seed=3))["x_"]

    assert holds(value)


@pytest.mark.parametrize("name", ["normal", "uniform", "integers", "sorted", "positive"])
def test_equal_values_occur_in_every_domain_that_can_have_them(name: str) -> None:
    dtype, spec, _ = DOMAINS[name]
    ir = make_ir([{"name": "n", "value": 40}], dtype=dtype)
    specs = Inputs.from_json({"x_": {"distribution": name, **spec}}, where="inputs.json")

    value = draw(ir, specs, Case(id="c", stage="values", dims={"n": 40}, regime="ties", seed=3))["x_"]

    assert len(np.unique(value)) < value.size


def test_what_half_rounds_to_zero_is_still_positive() -> None:
    ir = make_ir([{"name": "n", "value": 40}], dtype="float16")
    specs = Inputs.from_json(
        {"x_": {"distribution": "positive", "low": 0, "high": 1e-8}}, where="inputs.json"
    )

    value = draw(ir, specs, Case(id="c", stage="values", dims={"n": 40}, seed=3))["x_"]

    assert (value > 0).all()


@given(rows=st.integers(0, 50), entries=st.integers(0, 90), seed=st.integers(0, 2**32))
@settings(deadline=None)
def test_csr_offsets_are_offsets(rows: int, entries: int, seed: int) -> None:
    ir = make_ir([{"name": "rows", "value": 1, "min": 0}, {"name": "nnz", "value": 1, "min": 0}], tensors=[
        {"name": "at", "role": "in", "dtype": "int32", "shape": ["rows + 1"]}, {"name": "v", "role": "in", "dtype": "float32", "shape": ["nnz"]},
        {"name": "y_", "role": "out", "dtype": "float32", "shape": ["rows"]}])  # fmt: skip
    specs = Inputs.from_json({"at": {"distribution": "csr_offsets", "of": "v"}}, where="inputs.json")

    at = draw(ir, specs, Case(id="c", stage="tiny", dims={"rows": rows, "nnz": entries}, seed=seed))["at"]

    assert at[0] == 0
    assert (np.diff(at) >= 0).all()
    assert at[-1] == (entries if rows else 0)


def test_an_impossible_distribution_names_its_entry() -> None:
    ir = make_ir([{"name": "n", "value": 4, "min": 0}], dtype="int32")
    specs = Inputs.from_json({"x_": {"distribution": "integers", "low": 3, "high": "n"}}, where="inputs.json")

    with pytest.raises(ConfigError, match=r"'x_' cannot be drawn at .*3\.\.2 is empty"):
        draw(ir, specs, Case(id="c", stage="tiny", dims={"n": 2}, seed=1))


@pytest.mark.parametrize("text", [[], {"x": 3}, {"x": {"distribution": "cauchy"}}, {"x": {"distribution": "normal", "std": -1}},
                                  {"schema": "cuda-harness/inputs/2"}, {"x": {"distribution": "normal", "sigma": 1}}])  # fmt: skip
def test_an_unusable_inputs_json_is_refused_with_its_place(text: Any) -> None:
    with pytest.raises(ConfigError, match=r"inputs\.json"):
        Inputs.from_json(text, where="inputs.json")


SCALARS = st.one_of(
    st.builds(
        lambda v, d: {"dtype": d, "value": v}, st.floats(-100, 100), st.sampled_from(["float32", "float64"])
    ),
    st.builds(
        lambda v, d: {"dtype": d, "value": v}, st.integers(-50, 50), st.sampled_from(["int32", "int64"])
    ),
    st.builds(
        lambda v, w: {"dtype": "float32", "value": v, "low": v - w, "high": v + w},
        st.floats(-9, 9),
        st.floats(0.01, 9),
    ),
    st.builds(
        lambda v, w: {"dtype": "int32", "value": v, "low": v - w, "high": v + w},
        st.integers(-9, 9),
        st.integers(0, 9),
    ),
    st.builds(
        lambda v, w: {"dtype": "float32", "value": v, "high": v + w}, st.floats(-9, 9), st.floats(0.01, 9)
    ),
    st.builds(
        lambda v, w: {"dtype": "float32", "value": v, "low": v - w}, st.floats(-9, 9), st.floats(0.01, 9)
    ),
)


@given(scalar=SCALARS, seed=st.integers(0, 2**40))
@settings(max_examples=200, deadline=None)
def test_scalars_stay_in_their_range_and_vary(scalar: dict[str, Any], seed: int) -> None:
    ir = make_ir([{"name": "n", "value": 4}], scalars=[{"name": "s", **scalar}])

    drawn = [scalars_of(ir, f"case{i}", seed)["s"] for i in range(24)]

    low, high = scalar.get("low"), scalar.get("high")
    slack = 1e-6 * (1 + abs(float(scalar["value"])))
    assert all((low is None or v >= low - slack) and (high is None or v <= high + slack) for v in drawn)
    if low is None or high is None or high > low:
        assert len(set(drawn)) > 1, "a free scalar is varied"
    if scalar["dtype"].startswith("int"):
        assert all(isinstance(v, int) for v in drawn)


def test_a_fixed_scalar_is_not_varied() -> None:
    ir = make_ir(
        [{"name": "n", "value": 4}], scalars=[{"name": "s", "dtype": "float32", "value": 2.5, "fixed": True}]
    )

    assert {scalars_of(ir, f"c{i}", 1)["s"] for i in range(9)} == {2.5}
