"""Outputs against the truth, rule by rule."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.verify.compare import Agreement, Expected, Mismatch, compare_outputs

RNG = np.random.default_rng(7)


def ir_of(
    dtype: str = "float32",
    shape: tuple[Any, ...] = ("n",),
    compare: dict[str, Any] | None = None,
    **dims: int,
) -> KernelIR:
    tensors: list[dict[str, Any]] = [
        {"name": "x", "role": "in", "dtype": "float32", "shape": list(dims or {"n": 0})},
        {"name": "y", "role": "out", "dtype": dtype, "shape": list(shape), "compare": compare},
    ]
    sizes = [{"name": n, "value": v, "min": 0} for n, v in (dims or {"n": 64}).items()]
    return KernelIR.model_validate({"name": "k", "dims": sizes, "tensors": tensors})


def judged(
    ir: KernelIR, got: Any, truth: Any, *, x: Any = None, mask: Any = None, sense: Any = None
) -> Agreement | Mismatch:
    expected = Expected(
        {"y": truth}, {} if mask is None else {"y": mask}, {} if sense is None else {"y": sense}
    )
    inputs = {} if x is None else {"x": x}
    return compare_outputs(ir, ir.target_dims, {"y": got}, expected, inputs=inputs)


def test_a_rounded_truth_agrees_and_zeros_do_not_however_small_the_values() -> None:
    for scale in (1e-30, 1e-6, 1.0, 1e30):
        truth = RNG.standard_normal(64) * scale
        assert isinstance(judged(ir_of(), truth.astype(np.float32), truth), Agreement)
        found = judged(ir_of(), np.zeros(64, np.float32), truth)
        assert isinstance(found, Mismatch)
        assert found.evidence["pattern"] == "an output that was only zeroed"


def test_nan_never_passes_where_the_truth_is_a_number() -> None:
    truth = RNG.standard_normal(64)
    got = truth.astype(np.float32)
    got[5] = np.nan
    found = judged(ir_of(compare={"mode": "close", "rtol": 1e9, "atol": 1e9}), got, truth)
    assert isinstance(found, Mismatch)
    assert (found.class_, found.evidence["index"], found.evidence["got"]) == ("nonfinite", [5], "nan")


def test_a_truth_full_of_nan_is_no_wildcard() -> None:
    found = judged(ir_of(), np.full(64, 9e9, np.float32), np.full(64, np.nan))
    assert isinstance(found, Mismatch)
    assert found.count == 64


def test_infinities_keep_their_places_and_signs() -> None:
    truth = RNG.standard_normal(64)
    truth[[3, 9]] = np.inf, -np.inf
    got = truth.astype(np.float32)
    assert isinstance(judged(ir_of(), got, truth), Agreement)
    got[9] = np.inf
    found = judged(ir_of(), got, truth)
    assert isinstance(found, Mismatch)
    assert found.evidence["index"] == [9]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3", "float8_e5m2"])
def test_the_rounding_of_narrow_outputs_is_honoured_near_zero_too(dtype: str) -> None:
    kind = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float8_e4m3": ml_dtypes.float8_e4m3fn,
            "float8_e5m2": ml_dtypes.float8_e5m2}[dtype]  # fmt: skip
    for scale in (1e-3, 1.0, 8.0):
        truth = RNG.standard_normal(64) * scale
        assert isinstance(judged(ir_of(dtype), truth.astype(kind), truth), Agreement), (dtype, scale)


def test_integers_are_exact_unless_a_tolerance_is_stated() -> None:
    truth = np.arange(64, dtype=np.int8)
    off = truth + np.int8(1)
    assert isinstance(judged(ir_of("int8"), off, truth), Mismatch)
    near = {"mode": "close", "atol": 1, "rtol": 0}
    assert isinstance(judged(ir_of("int8", compare=near), off, truth), Agreement)
    ends = np.full(64, 127, np.int8), np.full(64, -128, np.int8)
    assert isinstance(judged(ir_of("int8", compare=near), *ends), Mismatch)


def test_every_output_counts_and_a_missing_or_retyped_one_is_wrong() -> None:
    ir = ir_of()
    truth = np.zeros(64)
    found = compare_outputs(ir, {"n": 64}, {}, Expected({"y": truth}), inputs={})
    assert isinstance(found, Mismatch)
    assert isinstance(judged(ir, np.zeros(64), truth), Mismatch)


def test_undefined_elements_are_left_out() -> None:
    truth = RNG.standard_normal(64)
    mask = np.arange(64) < 10
    got = np.where(mask, truth, np.nan).astype(np.float32)
    assert isinstance(judged(ir_of(), got, truth, mask=mask), Agreement)
    got[3] += 1
    assert isinstance(judged(ir_of(), got, truth, mask=mask), Mismatch)


def test_bytes_of_a_word_may_differ_by_a_step_and_do_not_wrap() -> None:
    rule = {"mode": "packed_u8", "max_step": 1}
    truth = np.full(64, 0x00FF7F10, np.uint32)
    assert isinstance(judged(ir_of("uint32", compare=rule), truth - np.uint32(0x01), truth), Agreement)
    assert isinstance(judged(ir_of("uint32", compare=rule), truth - np.uint32(0x02), truth), Mismatch)
    assert isinstance(judged(ir_of("uint32", compare=rule), truth + np.uint32(0x010000), truth), Mismatch)


def test_a_set_has_no_order_but_counts_repeats() -> None:
    rule = {"mode": "set"}
    truth = np.arange(64, dtype=np.int32)
    assert isinstance(judged(ir_of("int32", compare=rule), truth[::-1].copy(), truth), Agreement)
    twice = truth.copy()
    twice[0] = 1
    assert isinstance(judged(ir_of("int32", compare=rule), twice, truth), Mismatch)


ROWS = {"rows": 3, "cols": 4}
TIED = np.array([[1, 5, 5, 0], [2, 2, 2, 2], [9, 0, 0, 0]], np.float32)


@pytest.mark.parametrize(
    ("ties", "got", "right"),
    [("any", [2, 3, 0], True), ("lowest", [2, 3, 0], False), ("any", [2, 3, 1], False), ("any", [2, 3, 4], False),
     ("any", [2, 3, -4], False), ("any", [2, 2, 0], True), ("lowest", [1, 0, 0], True)],
)  # fmt: skip
def test_indices_are_compared_by_what_they_name(ties: str, got: list[int], right: bool) -> None:
    ir = ir_of("int32", ("rows",), {"mode": "index", "of": "x", "axis": 1, "ties": ties}, **ROWS)
    found = judged(ir, np.array(got, np.int32), np.array([1, 0, 0], np.int32), x=TIED)
    assert isinstance(found, Agreement) is right


def test_two_ranks_may_not_name_the_same_tied_element() -> None:
    ir = ir_of("int32", ("rows", 2), {"mode": "index", "of": "x", "ties": "any"}, **ROWS)
    truth = np.array([[1, 2], [0, 1], [0, 1]], np.int32)
    assert isinstance(judged(ir, np.array([[2, 1], [3, 0], [0, 3]], np.int32), truth, x=TIED), Agreement)
    found = judged(ir, np.array([[2, 2], [3, 0], [0, 3]], np.int32), truth, x=TIED)
    assert isinstance(found, Mismatch)
    assert found.evidence["index"] == [0, 1]


def test_ranks_down_a_column_are_taken_along_their_axis() -> None:
    ir = ir_of("int32", (2, "cols"), {"mode": "index", "of": "x", "axis": 0, "ties": "any"}, **ROWS)
    truth = np.array([[2, 0, 0, 1], [1, 1, 1, 0]], np.int32)
    got = np.array([[2, 0, 0, 1], [1, 1, 1, 2]], np.int32)
    assert isinstance(judged(ir, got, truth, x=TIED), Agreement)


@pytest.mark.parametrize(
    ("spoil", "pattern"),
    [
        (lambda t: -t, "the opposite sign"),
        (lambda t: t * 2, "a constant factor of 2"),
        (lambda t: np.roll(t.reshape(-1), 1).reshape(t.shape), "a shift by one element"),
        (lambda t: t.T.copy(), "a transposed output"),
        (lambda t: np.where(np.arange(t.size).reshape(t.shape) < 50, t, 7.0), "the tail: everything from flat index 50 on"),
        (lambda t: np.where(np.arange(8) < 7, t, 7.0), "the last column only"),
    ],
)  # fmt: skip
def test_the_message_names_the_class_of_mistake_and_one_element(spoil: Any, pattern: str) -> None:
    ir = ir_of("float32", ("a", "b"), a=8, b=8)
    truth = RNG.standard_normal((8, 8))
    found = judged(ir, spoil(truth).astype(np.float32), truth)
    assert isinstance(found, Mismatch)
    assert found.evidence["pattern"] == pattern
    assert pattern in found.message
    assert set(found.evidence) == {"output", "index", "got", "expected", "shape", "wrong", "of", "pattern"}


def test_small_even_errors_are_called_precision_under_strict() -> None:
    truth = RNG.standard_normal(64)
    found = judged(ir_of(), truth.astype(np.float16).astype(np.float32), truth)
    assert isinstance(found, Mismatch)
    assert found.class_ == "precision"


def test_no_elements_agree_with_no_elements() -> None:
    ir = ir_of(n=0)
    assert isinstance(judged(ir, np.zeros(0, np.float32), np.zeros(0)), Agreement)


@pytest.mark.parametrize("mode", ["close", "exact"])
def test_a_signalling_nan_is_wrong_without_a_warning(mode: str) -> None:
    truth = np.ones(64)
    got = truth.astype(np.float32)
    got.view(np.uint32)[3] = 0x7F800001
    assert isinstance(judged(ir_of(compare={"mode": mode}), got, truth), Mismatch)


@pytest.mark.parametrize("place", [0, 1 << 17, (1 << 18) + 4])
@pytest.mark.parametrize("spoil", [np.nan, np.inf, 7.0])
def test_one_wrong_element_of_a_large_output_is_found_wherever_it_is(place: int, spoil: float) -> None:
    ir = ir_of(n=(1 << 18) + 5)
    truth = RNG.standard_normal(ir.target_dims["n"])
    got = truth.astype(np.float32)
    assert isinstance(judged(ir, got, truth), Agreement)
    got[place] = spoil
    found = judged(ir, got, truth)
    assert isinstance(found, Mismatch)
    assert (found.count, found.evidence["index"]) == (1, [place])
    truth[place] = spoil
    assert isinstance(judged(ir, got, truth), Agreement), "as the truth has it"


def test_a_large_output_beyond_the_least_is_judged_by_all_that_is_allowed() -> None:
    ir = ir_of(n=1 << 18)
    truth = RNG.standard_normal(1 << 18)
    got = (truth * (1 + 3e-5)).astype(np.float32)
    assert isinstance(judged(ir, got, truth), Mismatch)
    sense = np.abs(truth) * 1e-5
    assert isinstance(judged(ir, got, truth, sense=sense), Agreement)


def test_a_few_huge_elements_lend_nothing_to_the_others() -> None:
    """Forces of near pairs are 1e10, those of the others 1: the condition of the first is no excuse for the second."""
    truth = RNG.standard_normal(512)
    truth[:8] *= 1e10
    sense = np.abs(truth) * 2.0**-24
    got = truth.astype(np.float32)
    assert isinstance(judged(ir_of(n=512), got, truth, sense=sense), Agreement)
    got[100] = truth[100] + 0.05
    found = judged(ir_of(n=512), got, truth, sense=sense)
    assert isinstance(found, Mismatch)
    assert found.evidence["index"] == [100]


def test_what_an_exponential_cannot_reach_may_vanish() -> None:
    ir = ir_of(n=1).model_copy(update={"summary": "x * sigmoid(x), by exp"})
    truth, got = np.array([1.9e-39]), np.zeros(1, np.float32)
    assert isinstance(judged(ir, got, truth, x=np.array([-88.6], np.float32)), Agreement)
    assert isinstance(judged(ir, got, truth, x=np.array([1.0], np.float32)), Mismatch)
