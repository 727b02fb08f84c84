"""Arrays that a request declares one a line."""

import pytest

from cuda_harness.agents.llm.offline.planning.declared import (
    Declared,
    Interface,
    check_interface,
    split_outputs,
)
from cuda_harness.agents.llm.offline.planning.planner import plan
from cuda_harness.agents.llm.offline.planning.refusal import Refusal

BLOCK = "\n\nInputs:\n- x: float32, shape (96, 300)\nOutputs:\n- sums: float32, shape (96,)\n"


def test_the_block_is_read_and_its_outputs_leave_the_text() -> None:
    rest, declared = split_outputs("Sum of each row." + BLOCK)
    assert declared == Interface((Declared("x", "float32", 28_800),), (Declared("sums", "float32", 96),))
    assert "sums" not in rest
    assert "shape (96, 300)" in rest
    assert split_outputs("Sum of each row.") == ("Sum of each row.", Interface())


def test_declared_sizes_are_those_of_the_problem() -> None:
    ir = plan("Sum of each row." + BLOCK)
    assert {d["name"]: d["value"] for d in ir["dims"]} == {"rows": 96, "cols": 300}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("- sums: float32, shape (96,)", "- sums: float32, shape (300,)"), "answers 96 x float32"),
        (("- sums: float32, shape (96,)", "- sums: float64, shape (96,)"), "answers 96 x float32"),
        (("(96, 300)\n", "(96, 300)\n- w: float32, shape (300,)\n"), "takes 28800 x float32"),
    ],
)
def test_another_interface_is_refused(change: tuple[str, str], message: str) -> None:
    text = "Sum of each row." + BLOCK
    data = plan(text)
    with pytest.raises(Refusal, match=message):
        check_interface(data, split_outputs(text.replace(*change))[1])
