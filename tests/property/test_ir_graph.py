"""The IR's steps as a graph: any order of a sound chain passes, any closed circle is named."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.ir.check import check_ir, step_graph


def ir_of(steps: list[dict[str, Any]], middle: list[str]) -> KernelIR:
    return KernelIR.model_validate({
        "name": "k", "dims": [{"name": "n", "value": 8}],
        "tensors": [
            {"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
            {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]},
        ],
        "intermediates": [{"name": m, "dtype": "float32", "shape": ["n"]} for m in middle],
        "steps": steps,
    })  # fmt: skip


@st.composite
def chains(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[str]]:
    """Steps s0..sk that each read some earlier value and write a new one; every value is read, the last is the output."""
    count = draw(st.integers(1, 8))
    middle = [f"m{i}" for i in range(count - 1)]
    values = ["x", *middle, "y"]
    steps = []
    for i in range(count):
        extra = draw(st.lists(st.sampled_from(values[: i + 1]), max_size=3))
        steps.append(
            {"id": f"s{i}", "op": "f", "reads": sorted({values[i], *extra}), "writes": [values[i + 1]]}
        )
    return draw(st.permutations(steps)), middle


@given(chains())
def test_a_sound_graph_passes_in_any_order(chain: tuple[list[dict[str, Any]], list[str]]) -> None:
    ir = ir_of(*chain)
    assert check_ir(ir) == []
    assert set(step_graph(ir)) == {s.id for s in ir.steps}


@given(chains(), st.data())
def test_a_circle_is_found_and_named(
    chain: tuple[list[dict[str, Any]], list[str]], data: st.DataObject
) -> None:
    steps, middle = chain
    if not middle:
        return
    ordered = sorted(steps, key=lambda s: int(s["id"][1:]))
    early = data.draw(st.integers(0, len(ordered) - 2))
    late = data.draw(st.integers(early + 1, len(ordered) - 1))
    back = ordered[late]["writes"][0]
    ordered[early] = {**ordered[early], "reads": [*ordered[early]["reads"], back]}
    faults = check_ir(ir_of(ordered, middle))
    assert any("circular" in f.message and f"s{early}" in f.message for f in faults)


@given(chains(), st.data())
def test_what_is_left_out_is_missed(
    chain: tuple[list[dict[str, Any]], list[str]], data: st.DataObject
) -> None:
    steps, middle = chain
    gone = data.draw(st.sampled_from(steps))
    rest = [s for s in steps if s is not gone]
    if rest:
        faults = " ".join(str(f) for f in check_ir(ir_of(rest, middle)))
        assert repr(gone["writes"][0]) in faults
