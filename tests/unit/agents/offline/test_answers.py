"""Answers to assumptions: followed, or refused; never passed over."""

import pytest

from cuda_harness.agents.llm.offline.author import answer
from cuda_harness.agents.llm.offline.planning.answers import plan_with, read_facts
from cuda_harness.agents.llm.offline.planning.refusal import Refusal
from cuda_harness.agents.planner import parse_ir
from cuda_harness.agents.reply import Reply
from cuda_harness.prompts.loader import render


def test_answers_change_the_plan_and_are_no_assumptions_any_more() -> None:
    data = plan_with("relu of 300 elements", {"smallest size": "0", "dtype": "float16"})
    assert {t["dtype"] for t in data["tensors"]} == {"float16"}
    assert [d["min"] for d in data["dims"]] == [0]
    assert data["assumptions"] == []
    rows = plan_with("sum of a 3x4 matrix", {"axis": "each row"})
    assert rows["steps"][-1]["formula"] == "sum[i] = sum_j x[i,j]"
    assert plan_with("sum of a vector", {"size n": "5000"})["dims"][0]["value"] == 5000
    norm = plan_with("layer norm of each row, 8 x 16, no affine parameters", {"eps": "0.001"})
    assert "0.001" in norm["steps"][-1]["formula"]


def test_an_answer_like_the_assumption_is_only_a_fact() -> None:
    data = plan_with("relu of 300 floats", {"smallest size": "1"})
    assert data["dims"][0]["min"] == 1
    assert data["assumptions"] == []


@pytest.mark.parametrize(
    ("request_text", "facts", "said"),
    [
        ("sum of 30 floats", {"smallest size": "0"}, "cannot follow smallest size = '0'"),
        ("relu of 300 floats", {"smallest size": "some"}, "cannot follow"),
        ("relu of 300 floats", {"colour": "red"}, "nothing is assumed about 'colour'"),
    ],
)
def test_an_answer_that_the_templates_cannot_follow_is_refused(
    request_text: str, facts: dict[str, str], said: str
) -> None:
    with pytest.raises(Refusal, match=said):
        plan_with(request_text, facts)


def test_the_planners_prompt_carries_the_answers() -> None:
    facts = ("dtype: float16", "smallest size: 0")
    prompt = render("roles/planner", request="relu of 300 elements", target={"arch": "sm_90a"}, facts=facts)
    ir = parse_ir(Reply(answer(prompt.system, prompt.human)))
    assert ir.tensors[0].dtype == "float16"
    assert ir.dims[0].min == 0
    assert read_facts("\n".join(facts)) == {"dtype": "float16", "smallest size": "0"}
