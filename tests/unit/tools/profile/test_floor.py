"""Bounds computed from tensors, and what they may refute."""

from typing import Any

import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.profile.ceilings import Ceilings
from cuda_harness.tools.profile.floor import compulsory_bytes, floor, touched_in_part

MIB = 1 << 20
LIMITS = Ceilings(
    bandwidth_bytes_per_s=4e12, peak_bytes_per_s=4.4e12, launch_us=2.5, flops_per_s=6e13, tensor_flops_per_s=5e14, l2_bytes=50 * MIB
)  # fmt: skip


def ir(
    tensors: list[dict[str, Any]], steps: list[dict[str, Any]], n: int = 64 * MIB, **more: Any
) -> KernelIR:
    return KernelIR.model_validate(
        {"schema": "cuda-harness/ir/1", "name": "p", "dims": [{"name": "n", "value": n}], "tensors": tensors, "steps": steps, **more}
    )  # fmt: skip


def tensor(name: str, role: str, shape: list[str] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "role": role,
        "dtype": "float32",
        "shape": ["n"] if shape is None else shape,
        **more,
    }


COPY = ir([tensor("x", "in"), tensor("y", "out")], [{"id": "c", "op": "copy", "reads": ["x"], "writes": ["y"], "formula": "y[i] = x[i]"}])  # fmt: skip


def test_compulsory_bytes_read_inputs_once_and_write_outputs_once() -> None:
    made = ir(
        [tensor("a", "in"), tensor("b", "inout"), tensor("z", "in", unused=True), tensor("y", "out", [])],
        [{"id": "s", "op": "add", "reads": ["a", "b"], "writes": ["b", "y"]}],
    )
    assert compulsory_bytes(made, {"n": 10}) == 4 * 10 * 3 + 4


def test_the_floor_of_a_copy_is_its_bytes_over_the_bandwidth() -> None:
    bound = floor(COPY, COPY.target_dims, LIMITS)
    assert bound.compulsory_bytes == 512 * MIB
    assert bound.us == pytest.approx(512 * MIB / 4e12 * 1e6)
    assert bound.of == "bytes"


def test_a_time_that_would_need_more_than_the_best_bandwidth_is_refuted_with_its_arithmetic() -> None:
    bound = floor(COPY, COPY.target_dims, LIMITS)
    message = bound.impossible(40.0)
    assert message is not None
    assert str(bound.proof_bytes) in message
    assert "40.00 us" in message
    assert bound.impossible(bound.us) is None


def test_writes_that_may_still_lie_in_l2_prove_nothing() -> None:
    small = ir([tensor("y", "out")], [{"id": "f", "op": "fill", "writes": ["y"]}], n=4 * MIB)
    bound = floor(small, small.target_dims, LIMITS)
    assert bound.proof_bytes == 0
    assert bound.impossible(0.01) is None
    assert bound.doubts(0.01) != ()


def test_tensors_indexed_by_data_may_be_touched_in_part() -> None:
    gather = ir(
        [
            tensor("table", "in"),
            {"name": "ids", "role": "in", "dtype": "int32", "shape": ["n"]},
            tensor("y", "out"),
        ],
        [
            {
                "id": "s",
                "op": "take",
                "reads": ["table", "ids"],
                "writes": ["y"],
                "formula": "y[i] = table[ids[i]]",
            }
        ],
    )
    assert touched_in_part(gather) == {"table"}


@pytest.mark.parametrize("formula", ["y[i] = x[2*i]", "y[i] = x[i//2]", "y[i] = max(x[3*i], x[3*i+1])"])
def test_an_index_with_a_stride_may_skip_elements(formula: str) -> None:
    made = ir([tensor("x", "in"), tensor("y", "out")], [{"id": "s", "op": "take", "reads": ["x"], "writes": ["y"], "formula": formula}])  # fmt: skip
    assert "x" in touched_in_part(made)


def test_an_operation_that_selects_may_skip_elements() -> None:
    made = ir([tensor("x", "in"), tensor("y", "out")], [{"id": "s", "op": "masked_select", "reads": ["x"], "writes": ["y"]}])  # fmt: skip
    assert touched_in_part(made) == {"x", "y"}
    assert floor(made, made.target_dims, LIMITS).impossible(1.0) is None


def test_operations_of_a_model_only_raise_a_doubt() -> None:
    made = COPY.model_copy(update={"cost": COPY.cost.model_validate({"flops": "1000000*n"})})
    bound = floor(made, made.target_dims, LIMITS)
    assert bound.of == "flops"
    assert bound.impossible(200.0) is None
    assert any("check the cost formula" in d for d in bound.doubts(200.0))
    reached, of = bound.reached(200.0)
    assert reached <= 200.0
    assert of == "bytes", "the bound it broke is not the floor it is held against"


def test_half_types_are_held_against_the_tensor_rate() -> None:
    half = COPY.model_copy(
        update={"tensors": tuple(t.model_copy(update={"dtype": "float16"}) for t in COPY.tensors), "cost": COPY.cost.model_validate({"flops": "n"})}
    )  # fmt: skip
    assert floor(half, {"n": 500}, LIMITS).flops_us == pytest.approx(500 / 5e14 * 1e6)


def test_nothing_is_quicker_than_a_launch() -> None:
    bound = floor(COPY, {"n": 16}, LIMITS)
    assert (bound.us, bound.of) == (2.5, "launch")


def test_what_goes_one_way_is_held_against_its_own_bandwidth() -> None:
    both = LIMITS.model_copy(update={"details": {"read_bytes_per_s": 4.4e12, "write_bytes_per_s": 4.2e12}})
    assert both.streaming_us(10**9, 10**9) == pytest.approx(2e9 / 4e12 * 1e6)
    assert both.streaming_us(2 * 10**9, 10**9) == pytest.approx((2e9 / 4e12 + 1e9 / 4.4e12) * 1e6)
    assert both.streaming_us(0, 10**9) == pytest.approx(1e9 / 4.2e12 * 1e6)
    assert LIMITS.streaming_us(10**9, 0) == pytest.approx(1e9 / 4e12 * 1e6), "not measured alone: as a copy"


def test_a_copy_at_the_measured_bandwidth_has_reached_its_floor() -> None:
    bound = floor(COPY, COPY.target_dims, LIMITS)
    quicker = bound.bytes_us * 0.98  # part of the writes may still lie in L2
    assert bound.reached(quicker) == (quicker, "bytes")
    assert bound.doubts(quicker) == ()
    assert bound.reached(bound.bytes_us * 1.25) == (bound.bytes_us, "bytes")
    assert bound.doubts(bound.bytes_us * 0.8) != ()
