"""Ideas of the model: at most what was asked for, new ones only, and none is no failure."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.scripted_model import Line, ScriptedChatModel
from tests.fakes.services import FakeServices
from tests.golden.prompts import IR, KERNEL, PLAN, TARGET

from cuda_harness.agents.ideas import Proposal, propose
from cuda_harness.state.errors import ModelUnavailable
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan

IDEA = {
    "name": "cache_hint",
    "idea": "load the weights through the read-only cache",
    "expectation": "fewer sectors",
}


def block(value: Any) -> str:
    return f"It is bound by memory.\n```json\n{json.dumps(value)}\n```\n"


def asked(
    root: Path, *script: Line | str, most: int = 2
) -> tuple[tuple[Proposal, ...], FakeServices, ScriptedChatModel]:
    model = ScriptedChatModel(*script)
    services = FakeServices(root, {"evolver": model})
    found = propose(
        services, round_number=2, most=most, ir=KernelIR.model_validate(IR),  # type: ignore[arg-type]
        kernel=Kernel(source=KERNEL, plan=LaunchPlan.model_validate(PLAN)), profile=None, target=TARGET,
        history=["round 1: vector_loads: rejected"], used={"vector_loads"},
    )  # fmt: skip
    return found, services, model


def test_ideas_are_taken_up_to_the_number_asked_for_and_kept_on_disk(tmp_path: Path) -> None:
    more = {**IDEA, "name": "other_hint"}
    found, services, model = asked(tmp_path, block({"ideas": [IDEA, more]}), most=1)
    assert [i.name for i in found] == ["cache_hint"]
    assert services.folder.exists("replies/evolver-main-2-0.json")
    text = str(model.seen[0][-1].content)
    assert "vector_loads: rejected" in text
    assert "## Names taken" in text


def test_a_reason_to_stop_gives_no_idea(tmp_path: Path) -> None:
    found, services, _ = asked(tmp_path, block({"stop": "it moves each byte once"}))
    assert found == ()
    assert ("ideas_missing", {"round": 2, "reason": "it moves each byte once"}) in services.events


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ({"ideas": [{**IDEA, "name": "vector_loads"}]}, "vector_loads was tried already"),
        ({"ideas": [IDEA, IDEA]}, "cache_hint was tried already"),
        ({"ideas": [{**IDEA, "name": "../x"}]}, "must be"),
        ({"ideas": [], "stop": " "}, "neither ideas nor a reason"),
    ],
)
def test_an_unusable_reply_gets_one_repair_turn(tmp_path: Path, first: dict[str, Any], said: str) -> None:
    found, _, model = asked(tmp_path, block(first), block({"ideas": [IDEA]}))
    assert [i.name for i in found] == ["cache_hint"]
    assert said in str(model.seen[1][-1].content)


def test_a_refusal_or_two_unusable_replies_are_no_idea(tmp_path: Path) -> None:
    assert asked(tmp_path / "a", block({"refused": "no"}))[0] == ()
    assert asked(tmp_path / "b", "nothing", "nothing")[0] == ()


def test_a_provider_that_fails_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ModelUnavailable):
        asked(tmp_path, Line(error=ConnectionError("down")))
