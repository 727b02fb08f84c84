"""The Planner: an IR that holds together, or a reason."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.scripted_model import ScriptedChatModel
from tests.fakes.services import FakeRuntime, FakeServices

from cuda_harness.agents.planner import plan_kernel
from cuda_harness.state.errors import ModelRefused, ReplyInvalid
from cuda_harness.state.harness import PlannerView
from cuda_harness.state.ir import KernelIR

GOOD: dict[str, Any] = {
    "schema": "cuda-harness/ir/1",
    "name": "double_it",
    "dims": [{"name": "n", "value": 1000}],
    "tensors": [
        {"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
        {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]},
    ],
    "steps": [{"id": "s", "op": "scale", "reads": ["x"], "writes": ["y"], "formula": "y[i] = 2*x[i]"}],
    "cost": {"flops": "n", "bytes": "8*n"},
}


def reply(ir: dict[str, Any]) -> str:
    return f"```json\n{json.dumps(ir)}\n```"


def plan(tmp_path: Path, *script: str) -> tuple[KernelIR | None, FakeServices, ScriptedChatModel]:
    model = ScriptedChatModel(*script)
    services = FakeServices(tmp_path, {"planner": model})
    update = plan_kernel(
        PlannerView(request="twice x", run_dir="r", target="sm_90a"),
        FakeRuntime(services),  # type: ignore[arg-type]
    )
    return update["ir"], services, model


def test_the_ir_is_returned_and_saved(tmp_path: Path) -> None:
    ir, services, model = plan(tmp_path, reply(GOOD))
    assert ir is not None
    assert ir.name == "double_it"
    assert KernelIR.read(tmp_path / "ir.json") == ir
    assert "twice x" in str(model.seen[0][1].content)
    assert "sm_90a" in str(model.seen[0][1].content)
    assert services.names()[-1] == "request_planned"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tensors": []}, "tensors"),
        ({"dims": [{"name": "n", "value": 1000, "multiple_of": 7}]}, "multiple_of"),
        ({"tensors": [{**GOOD["tensors"][0], "dtype": "float31"}, GOOD["tensors"][1]]}, "dtype"),
        ({"colour": "red"}, "colour"),
        ({"schema": "cuda-harness/ir/2"}, "cuda-harness/ir/1"),
        ({"steps": [{**GOOD["steps"][0], "reads": []}]}, "x"),
        ({"cost": {"flops": "n / 2"}}, "//"),
    ],
)
def test_a_faulty_ir_gets_a_repair_turn_that_names_the_fault(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    ir, _, model = plan(tmp_path, reply({**GOOD, **change}), reply(GOOD))
    assert ir is not None
    assert said in str(model.seen[1][3].content)


def test_an_ir_that_stays_faulty_ends_the_run(tmp_path: Path) -> None:
    with pytest.raises(ReplyInvalid, match="planner"):
        plan(tmp_path, reply({**GOOD, "tensors": []}), "sorry")


def test_a_refusal_gives_its_reason(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match="the sizes contradict"):
        plan(tmp_path, '```json\n{"refused": "the sizes contradict each other"}\n```')
