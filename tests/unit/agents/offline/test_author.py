"""The author behind its prompts: each role's own template goes in, a reply that the role's own reader takes comes out."""

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from cuda_harness.agents.coder import parse_kernel
from cuda_harness.agents.llm.offline.author import answer, make
from cuda_harness.agents.llm.offline.prompt import read_prompt
from cuda_harness.agents.planner import parse_ir
from cuda_harness.agents.reply import Reply, pick_python, read_json
from cuda_harness.prompts.loader import Prompt, render
from cuda_harness.state.errors import ConfigError, ModelRefused
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel
from cuda_harness.state.settings import Settings

TARGET = {"arch": "sm_90a"}


def planner_prompt(request: str) -> Prompt:
    return render("roles/planner", request=request, target=TARGET)


def planned(request: str) -> KernelIR:
    prompt = planner_prompt(request)
    return parse_ir(Reply(answer(prompt.system, prompt.human)))


def coder_prompt(ir: KernelIR, last: Kernel | None = None, history: tuple[str, ...] = ()) -> Prompt:
    failure = {"stage": "tiny", "class": "mismatch", "message": "wrong", "evidence": {}} if last else None
    return render(
        "roles/coder", target=TARGET, ir=ir.model_dump(mode="json", by_alias=True, exclude_none=True),
        last_kernel=last.source if last else None,
        last_plan=last.plan.model_dump(mode="json", by_alias=True, exclude_none=True) if last else None,
        failure=failure, history=list(history), skills=[], advice="", action="repair" if last else "write", idea="",
    )  # fmt: skip


def test_a_request_becomes_an_ir_by_the_planners_own_reader() -> None:
    ir = planned("Softmax over each row of a float32 matrix, 64 x 32.")
    assert ir.target_dims == {"rows": 64, "cols": 32}


def test_a_request_that_quotes_fences_and_headings_is_still_one_text() -> None:
    text = "relu of a vector\n## IR\n```json\n{}\n```\n"
    question = read_prompt(*_messages(planner_prompt(text)))
    assert question.sections["Request"] == text.strip()
    assert "IR" not in question.sections


def test_a_refusal_says_what_can_be_done_and_how_to_name_a_model() -> None:
    prompt = planner_prompt("solve the three-body problem")
    reply = Reply(answer(prompt.system, prompt.human))
    with pytest.raises(ModelRefused, match="openai:NAME") as caught:
        parse_ir(reply)
    assert "'solve'" in caught.value.message
    data = read_json(reply.blocks[0].text)
    assert len(data["can"]) >= 5


def test_references_come_as_python_and_input_specs() -> None:
    ir = planned("mean of log of each row")
    shown = ir.model_dump(mode="json", by_alias=True, exclude_none=True)
    values: dict[str, Any] = {"request": "x", "ir": shown, "failure": None, "last_reference": None}
    prompt = render("roles/reference", **values)
    reply = Reply(answer(prompt.system, prompt.human))
    assert "def reference(inputs, dims, scalars)" in pick_python(reply.blocks)
    specs = json.loads(next(b.text for b in reply.blocks if b.language == "json"))
    assert specs["inputs"]["x"]["low"] > 0
    prompt = render("roles/loops", **values)
    loops = pick_python(Reply(answer(prompt.system, prompt.human)).blocks)
    assert "for i_i in range" in loops
    assert "np.sum" not in loops


def test_each_repair_writes_another_design_until_none_is_left() -> None:
    ir = planned("layer norm of a 64 x 32 matrix")
    seen: dict[int, str] = {}
    last: Kernel | None = None
    history: list[str] = []
    from cuda_harness.agents.gate import design_sha256

    for attempt in range(1, 4):
        prompt = coder_prompt(ir, last, tuple(history))
        last = parse_kernel(Reply(answer(prompt.system, prompt.human)), ir, seen)
        seen[attempt] = design_sha256(last)
        history.append(f"{attempt} first: rejected, mismatch at tiny: wrong")
    prompt = coder_prompt(ir, last, tuple(history))
    with pytest.raises(ModelRefused, match="every design"):
        parse_kernel(Reply(answer(prompt.system, prompt.human)), ir, seen)


def test_kernels_index_in_64_bits_and_use_no_float_atomics() -> None:
    for request in (
        "sum of each row",
        "sum of a vector",
        "matmul",
        "transpose a matrix",
        "cumulative sum of a vector",
    ):
        prompt = coder_prompt(planned(request))
        source = parse_kernel(Reply(answer(prompt.system, prompt.human)), None, {}).source
        assert "int64_t" in source
        assert "atomic" not in source


def test_an_ir_without_formulas_of_the_language_is_refused() -> None:
    ir = planned("relu").model_copy(deep=True)
    shown = ir.model_dump(mode="json", by_alias=True, exclude_none=True)
    shown["steps"][0]["formula"] = "y is x with the negative values set to zero"
    prompt = coder_prompt(KernelIR.model_validate(shown))
    with pytest.raises(ModelRefused, match="is left over|is missing"):
        parse_kernel(Reply(answer(prompt.system, prompt.human)), None, {})


def test_it_names_neither_reference_as_wrong() -> None:
    prompt = render("roles/arbiter", request="x", ir={}, failure={}, reference="a", loops="b")
    assert json.loads(Reply(answer(prompt.system, prompt.human)).blocks[0].text)["wrong"] == "ir"


def test_an_unknown_role_is_refused() -> None:
    assert "refused" in answer("<!-- role: poet; version: 1 -->\n", "## Request\n")
    assert "refused" in answer("no header", "")


def test_the_chat_model_is_offline_and_counts_nothing() -> None:
    model = make("", role="planner", settings=Settings())
    prompt = planner_prompt("relu of a vector")
    reply = model.invoke([SystemMessage(prompt.system), HumanMessage(prompt.human)])
    assert isinstance(reply, AIMessage)
    assert reply.response_metadata["finish_reason"] == "stop"
    assert reply.response_metadata["model_name"] == model.model_name == "offline"
    assert reply.usage_metadata is None
    again = model.invoke([SystemMessage(prompt.system), HumanMessage(prompt.human)])
    assert again.content == reply.content


def test_it_takes_no_argument() -> None:
    with pytest.raises(ConfigError, match="no argument"):
        make("large", role="coder", settings=Settings())


def _messages(prompt: Prompt) -> tuple[str, str]:
    return prompt.system, prompt.human
