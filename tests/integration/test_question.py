"""`--ask`: the run waits before a kernel is written, and what is answered becomes a stated fact."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.scripted_model import ScriptedChatModel

from cuda_harness import agenerate, generate
from cuda_harness.graph.asking import STATED, apply_answer, check_answer
from cuda_harness.graph.runner import make_context, resume
from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.settings import Settings

REQUEST = "relu of a float32 vector with 300 elements"


def ir(slope: str) -> dict[str, Any]:
    return {
        "name": "leaky", "dims": [{"name": "n", "value": 300}],
        "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
                    {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
        "steps": [{"id": "s", "op": "leaky_relu", "reads": ["x"], "writes": ["y"],
                   "formula": f"y[i] = x[i] if x[i] > 0 else {slope}*x[i]"}],
        "assumptions": [] if slope == "0.2" else [
            {"what": "slope", "value": slope, "why": "usual",
             "readings": [{"value": "0.01", "consequence": "the common default"}, {"value": "0.2", "consequence": "as in GANs"}]},
            {"what": "smallest size", "value": "1", "why": "not mentioned"},
        ],
    }  # fmt: skip


def reply(slope: str) -> str:
    return f"```json\n{json.dumps(ir(slope))}\n```\n"


def test_a_run_waits_for_an_answer_and_goes_on_with_it(tmp_path: Path) -> None:
    asked = generate(REQUEST, model="offline", executor="cpu", out=tmp_path, settings=Settings(), ask=True)
    assert asked.status == "question"
    assert asked.question is not None
    assert [a["what"] for a in asked.question["assumptions"]] == ["smallest size"]
    assert not (asked.run_dir / "attempts").exists()
    with pytest.raises(ConfigError, match="nothing was assumed about 'colour'"):
        resume(asked.run_dir, answer={"colour": "red"})
    again = resume(asked.run_dir)
    assert again.status == "question"
    done = resume(asked.run_dir, answer={})
    assert done.status == "verified"
    assert [a.why for a in done.assumptions] == [STATED]
    with pytest.raises(ConfigError, match="waits for no answer"):
        resume(asked.run_dir, answer={})


def test_another_answer_makes_the_planner_plan_again(tmp_path: Path) -> None:
    planner = ScriptedChatModel(reply("0.01"), reply("0.2"))
    reference = ScriptedChatModel('```json\n{"refused": "far enough"}\n```')
    result = generate(
        "leaky relu of 300 floats", models={"planner": planner, "reference": reference}, model="offline",
        executor="cpu", out=tmp_path, settings=Settings(), answer={"slope": "0.2"},
    )  # fmt: skip
    assert planner.left == 0
    second = str(planner.seen[1][-1].content)
    assert "## Stated since" in second
    assert "slope: 0.2" in second
    assert "smallest size: 1" in second
    assert result.ir is not None
    assert result.assumptions == ()
    assert result.stop["reason"] == "refused"


def test_an_answer_that_is_known_before_needs_no_second_call_of_ours(tmp_path: Path) -> None:
    refused = ScriptedChatModel('```json\n{"refused": "far enough"}\n```')
    models = {"planner": ScriptedChatModel(reply("0.01"), reply("0.2")), "reference": refused}
    arguments: dict[str, Any] = {
        "model": "offline",
        "executor": "cpu",
        "out": tmp_path,
        "settings": Settings(),
    }
    answered = asyncio.run(agenerate("leaky relu", models=models, answer={"slope": "0.2"}, **arguments))
    assert answered.stop["reason"] == "refused"
    assert answered.assumptions == ()
    models = {
        "planner": ScriptedChatModel(reply("0.01"), reply("0.2")),
        "reference": ScriptedChatModel('```json\n{"refused": "far enough"}\n```'),
    }
    own = make_context(models=models, **arguments)
    assert generate("leaky relu", context=own, answer={"slope": "0.2"}).assumptions == ()


def test_an_answer_like_the_assumption_confirms_it() -> None:
    planned = KernelIR.model_validate(ir("0.01"))
    confirmed, facts = apply_answer(planned, {"slope": " 0.01 "})
    assert facts == ()
    assert {a.why for a in confirmed.assumptions} == {STATED}
    with pytest.raises(ConfigError, match="more than"):
        check_answer([{"what": "slope"}], {"slope": "x" * 3_000})
