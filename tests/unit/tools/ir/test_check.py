"""An IR's steps as a graph: every kind of contradiction is found and named."""

from typing import Any

import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.ir.check import check_ir, step_graph


def ir(**changes: Any) -> KernelIR:
    document: dict[str, Any] = {
        "schema": KernelIR.KIND,
        "name": "two_steps",
        "dims": [{"name": "n", "value": 1000}],
        "tensors": [
            {"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
            {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]},
        ],
        "intermediates": [{"name": "m", "dtype": "float32", "shape": []}],
        "scalars": [{"name": "a", "dtype": "float32", "value": 2.0}],
        "steps": [
            {"id": "s1", "op": "max", "reads": ["x"], "writes": ["m"]},
            {"id": "s2", "op": "scale", "reads": ["x", "m", "a", "n"], "writes": ["y"]},
        ],
    }
    document.update(changes)
    return KernelIR.model_validate(document)


def step(id_: str, reads: list[str], writes: list[str]) -> dict[str, Any]:
    return {"id": id_, "op": "f", "reads": reads, "writes": writes}


def tensor(name: str, role: str, **rest: Any) -> dict[str, Any]:
    return {"name": name, "role": role, "dtype": "float32", "shape": ["n"], **rest}


def test_a_sound_ir_has_no_fault() -> None:
    assert check_ir(ir()) == []
    assert sorted(step_graph(ir()).edges) == [("s1", "s2")]
    assert check_ir(ir(steps=[], intermediates=[])) == []


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "circular": (
        {"steps": [step("s1", ["x", "q"], ["m"]), step("s2", ["m"], ["q", "y"])],
         "intermediates": [{"name": "m", "dtype": "float32"}, {"name": "q", "dtype": "float32"}]},
        "steps: are circular: s1 -> s2 -> s1",
    ),
    "output not produced": ({"steps": [step("s1", ["x"], ["m"]), step("s2", ["m"], ["m"])]}, "output 'y': no step writes it"),
    "input not read": ({"tensors": [tensor("x", "in"), tensor("z", "in"), tensor("y", "out")]}, "input 'z': no step reads it"),
    "unknown read": ({"steps": [step("s1", ["x"], ["m"]), step("s2", ["m", "w"], ["y"])]}, "step 's2': reads 'w'"),
    "unknown write": ({"steps": [step("s1", ["x"], ["m"]), step("s2", ["m"], ["y", "w"])]}, "step 's2': writes 'w'"),
    "write to an input": ({"steps": [step("s1", ["x"], ["m"]), step("s2", ["m"], ["y", "x"])]}, "writes 'x', whose role is in"),
    "intermediate not written": ({"steps": [step("s2", ["x", "m"], ["y"])]}, "intermediate 'm': is read but never written"),
    "intermediate not read": ({"steps": [step("s1", ["x"], ["m", "y"])]}, "intermediate 'm': is never read"),
    "unknown name in a shape": ({"tensors": [tensor("x", "in"), tensor("y", "out", shape=["k"])]}, "shape of 'y', axis 0: 'k' names k"),
    "a scalar in a shape": ({"tensors": [tensor("x", "in"), tensor("y", "out", shape=["a"])]}, "'a' names a; only dims"),
    "occupancy in a shape": (
        {"tensors": [tensor("x", "in"), tensor("y", "out", shape=["blocks_per_sm('k')"])]}, "names a kernel",
    ),
    "negative size": ({"tensors": [tensor("x", "in"), tensor("y", "out", shape=["n - 2000"])]}, "axis 0 is -1000 at the target"),
    "division by zero": (
        {"tensors": [tensor("x", "in"), tensor("y", "out", shape=["n // (n - 1000)"])]}, "division by zero",
    ),
    "too large": ({"tensors": [tensor("x", "in", shape=["n ** 5"]), tensor("y", "out")]}, "elements at the target"),
    "value beyond 63 bits": ({"tensors": [tensor("x", "in", shape=["n ** 9"]), tensor("y", "out")]}, "too large"),
    "constraint broken": ({"constraints": ["n % 7 == 0"]}, "constraints[0]: 'n % 7 == 0' does not hold"),
    "constraint of unknown": ({"constraints": ["k > 1"]}, "constraints[0]: 'k > 1' names k"),
    "cost of unknown": ({"cost": {"flops": "2 * k"}}, "cost.flops: '2 * k' names k"),
    "negative cost": ({"cost": {"bytes": "0 - n"}}, "cost.bytes: is -1000"),
    "index of nothing": (
        {"tensors": [tensor("x", "in"), tensor("y", "out", dtype="int32", compare={"mode": "index", "of": "q"})]},
        "`of` names 'q'",
    ),
    "index of a float": (
        {"tensors": [tensor("x", "in"), tensor("y", "out", compare={"mode": "index", "of": "x"})]},
        "mode index needs an integer dtype, not float32",
    ),
    "bytes of a float": ({"tensors": [tensor("x", "in"), tensor("y", "out", compare={"mode": "packed_u8"})]}, "packed_u8 needs an integer"),
    "ties of nothing": (
        {"tensors": [tensor("x", "in"), tensor("y", "out", dtype="int32", compare={"mode": "index", "ties": "any"})]},
        "`of` is missing",
    ),
    "an axis too far": (
        {"tensors": [tensor("x", "in"), tensor("y", "out", dtype="int32", compare={"mode": "index", "of": "x", "axis": 1})]},
        "axis 1 is no axis of 'x'",
    ),
    "reduction over nothing": (
        {"tensors": [tensor("x", "in"), tensor("y", "out", compare={"mode": "close", "reduction_length": "k"})]},
        "reduction_length 'k' names no dim",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "says"), FAULTS.values(), ids=FAULTS.keys())
def test_a_contradiction_is_found_and_named(changes: dict[str, Any], says: str) -> None:
    found = [str(f) for f in check_ir(ir(**changes))]

    assert any(says in f for f in found), found


def test_an_unused_input_need_not_be_read() -> None:
    assert check_ir(ir(tensors=[tensor("x", "in"), tensor("z", "in", unused=True), tensor("y", "out")])) == []
