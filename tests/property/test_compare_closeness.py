"""Honest rounding passes, anything beyond the bound fails, NaN never passes."""

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.verify import screen
from cuda_harness.tools.verify.compare import Agreement, Expected, Mismatch, compare_outputs
from cuda_harness.tools.verify.tolerance import least, tolerance

NARROW = {
    "float16": 6e4,
    "bfloat16": 3e38,
    "float8_e4m3": 440.0,
    "float8_e5m2": 5e4,
    "float32": 3e38,
    "float64": 1e300,
}


def ir_of(dtype: str, n: int, length: int = 1) -> KernelIR:
    return KernelIR.model_validate({
        "name": "k", "dims": [{"name": "n", "value": n, "min": 0}],
        "tensors": [{"name": "y", "role": "out", "dtype": dtype, "shape": ["n"], "compare": {"mode": "close", "reduction_length": length}}],
    })  # fmt: skip


def judged(ir: KernelIR, got: Any, truth: Any) -> Agreement | Mismatch:
    return compare_outputs(ir, ir.target_dims, {"y": got}, Expected({"y": truth}), inputs={})


@st.composite
def truths(draw: st.DrawFn) -> tuple[str, Any]:
    dtype = draw(st.sampled_from(sorted(NARROW)))
    top = NARROW[dtype]
    elements = st.floats(-top, top, allow_nan=False, allow_subnormal=True)
    return dtype, draw(hnp.arrays(np.float64, st.integers(1, 20), elements=elements))


@given(truths())
def test_the_rounded_truth_passes(case: tuple[str, Any]) -> None:
    dtype, truth = case
    with np.errstate(all="ignore"):
        got = truth.astype(np_dtype(dtype))
    assert isinstance(judged(ir_of(dtype, truth.size), got, truth), Agreement)


@given(truths(), st.integers(0, 19), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_one_stray_value_fails(case: tuple[str, Any], place: int, stray: float) -> None:
    dtype, truth = case
    assume(dtype != "float8_e4m3" or np.isnan(stray))
    with np.errstate(all="ignore"):
        got = truth.astype(np_dtype(dtype))
        assume(bool(np.isfinite(got.astype(np.float64)).all()))
        got[place % truth.size] = stray
    assert isinstance(judged(ir_of(dtype, truth.size), got, truth), Mismatch)


@given(truths(), st.integers(0, 19), st.floats(1.5, 1e6))
def test_an_element_beyond_its_bound_fails(case: tuple[str, Any], place: int, times: float) -> None:
    dtype, truth = case
    assume(dtype in {"float32", "float64"})
    ir = ir_of(dtype, truth.size)
    at = place % truth.size
    bound = tolerance(ir, ir.tensors[0], ir.target_dims, truth, None).element
    got = truth.astype(np_dtype(dtype))
    with np.errstate(all="ignore"):
        got[at] = truth[at] + times * 1.01 * bound[at]
    assume(abs(float(got[at]) - truth[at]) > bound[at])
    found = judged(ir, got, truth)
    assert isinstance(found, Mismatch)
    assert found.evidence["index"] == [at]


@settings(max_examples=40)
@given(
    st.integers(1, 3_000),
    st.integers(0, 2**32),
    st.sampled_from(["forward", "pairs", "blocks"]),
    st.floats(0.0, 300.0),
)
def test_honest_float32_sums_pass_in_any_order(length: int, seed: int, order: str, offset: float) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((4, length)) + offset).astype(np.float32)
    exact = x.astype(np.float64)
    signs = 2.0**-24 * rng.choice((-1.0, 1.0), size=(2, *x.shape))
    sense = np.abs((exact * signs).sum(axis=-1)).max(axis=0)
    match order:
        case "forward":
            got = np.cumsum(x, axis=1, dtype=np.float32)[:, -1]
        case "pairs":
            got = x.sum(axis=1, dtype=np.float32)
        case _:
            parts = [x[:, k::32].sum(axis=1, dtype=np.float32) for k in range(min(32, length))]
            got = np.sum(parts, axis=0, dtype=np.float32)
    ir = ir_of("float32", 4, length)
    truth = exact.sum(axis=1)
    found = compare_outputs(ir, {"n": 4}, {"y": got}, Expected({"y": truth}, {}, {"y": sense}), inputs={})
    assert isinstance(found, Agreement), found


@given(
    truths(),
    st.sampled_from([0.0, 0.5, 0.999, 1.001, 3.0, 100.0]),
    st.sampled_from([{"reduction_length": 1}, {"reduction_length": 4096}, {"rtol": 1e-3}, {"atol": 1e-2}]),
    st.sampled_from(["strict", "allow_tf32", "allow_half"]),
    st.integers(0, 2**32),
)
@settings(max_examples=150)
def test_what_a_large_output_passes_by_at_once_passes_in_full(
    case: tuple[str, Any], scale: float, rule: dict[str, Any], precision: str, seed: int
) -> None:
    dtype, truth = case
    ir = KernelIR.model_validate({
        "name": "k", "dims": [{"name": "n", "value": truth.size}], "numerics": {"precision": precision},
        "tensors": [{"name": "y", "role": "out", "dtype": dtype, "shape": ["n"], "compare": {"mode": "close", **rule}}],
    })  # fmt: skip
    relative, absolute = least(ir, ir.tensor("y"), ir.target_dims)
    with np.errstate(all="ignore"):
        off = np.random.default_rng(seed).choice((-scale, scale), truth.size) * (
            relative * np.abs(truth) + absolute
        )
        got = (truth + off).astype(np_dtype(dtype))
        share = screen.within(got, truth, dtype, relative=relative, absolute=absolute)
    if share is not None:
        assert share <= 1.0
        assert isinstance(judged(ir, got, truth), Agreement)  # smaller than a piece: judged in full
    elif np.isfinite(got.astype(np.float64)).all():
        assert scale > 0.0, "a rounded truth is within the least"
