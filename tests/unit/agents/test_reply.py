"""Every malformed kind of reply that models were seen to give."""

import pytest

from cuda_harness.agents.reply import (
    Reply,
    ReplyFault,
    fenced_blocks,
    pick_json,
    pick_kernel,
    pick_python,
    read_json,
    without_thinking,
)
from cuda_harness.state.errors import ModelRefused

OLD = 'extern "C" __global__ void k(float* p) { p[0] = 1; }'
NEW = 'extern "C" __global__ void k(float* p) { p[threadIdx.x] = 2; }'
PLAN = (
    '{"schema": "cuda-harness/plan/1", "steps": [{"launch": "k", "grid": [1], "block": [32], "args": ["p"]}]}'
)
KEYS = ("schema", "steps")


def fence(text: str, tag: str = "", mark: str = "```") -> str:
    return f"{mark}{tag}\n{text}\n{mark}\n"


KERNELS = {
    "plain": fence(NEW, "cuda"),
    "before and after": f"The old kernel was\n{fence(OLD, 'cuda')}Run it with\n{fence('nvcc k.cu', 'bash')}Final:\n{fence(NEW, 'cuda')}",
    "c++ tag": fence(NEW, "c++"),
    "cpp with file name": fence(NEW, "cpp kernel.cu"),
    "file name as tag": fence(NEW, "kernel.cu"),
    "attributes": fence(NEW, "{.cuda .numberLines}"),
    "no tag": fence(NEW),
    "capital tag": fence(NEW, "CUDA"),
    "tilde fence": fence(NEW, "cuda", "~~~"),
    "long fence": fence(NEW, "cuda", "`````"),
    "indented in a list": "1. kernel.cu\n\n   " + fence(NEW, "cuda").replace("\n", "\n   "),
    "carriage returns": fence(NEW, "cuda").replace("\n", "\r\n"),
    "thinking before": f"<think>\nmaybe\n{fence(OLD, 'cuda')}\n</think>\n{fence(NEW, 'cuda')}",
    "thinking after": f"{fence(NEW, 'cuda')}\n<thinking>\nor\n{fence(OLD, 'cuda')}</thinking>",
    "opening tag swallowed": f"hm\n{fence(OLD, 'cuda')}</think>\n{fence(NEW, 'cuda')}",
    "thought never closed": f"<think>\nSo the answer is\n{fence(NEW, 'cuda')}",
    "thought never closed after the answer": f"{fence(NEW, 'cuda')}\n<think>\nbut\n{fence(OLD, 'cuda')}",
    "fence never closed": f"```cuda\n{NEW}\n",
    "block not closed before the next": f"```cuda\n{NEW}\n```json\n{PLAN}\n```\n",
    "whole answer wrapped": f"```markdown\nHere:\n{fence(NEW, 'cuda')}{fence(PLAN, 'json')}```\n",
    "whole answer wrapped in a longer fence": f"````markdown\n{fence(OLD, 'cuda')}then\n{fence(NEW, 'cuda')}````\n",
    "pseudo-code without a kernel": f"{fence(NEW, 'cuda')}Helper:\n{fence('float f(float x);', 'cuda')}",
    "other kernel last": f"{fence(NEW, 'cuda')}For comparison:\n{fence('__global__ void other(int n) {}', 'cuda')}",
}


@pytest.mark.parametrize("text", KERNELS.values(), ids=KERNELS)
def test_the_kernel_that_is_meant_is_found(text: str) -> None:
    assert pick_kernel(Reply(text).blocks, ["k"]).strip() == NEW


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n",
        "I cannot find a good kernel.",
        NEW,
        fence("float f();", "cuda"),
        fence(NEW, "json"),
        "<think>\nhm",
    ],
)
def test_no_kernel_is_a_fault_with_a_reason(text: str) -> None:
    with pytest.raises(ReplyFault, match="__global__"):
        pick_kernel(Reply(text).blocks, ["k"])


def test_backticks_inside_a_longer_fence_stay_text() -> None:
    source = f"/* ```cuda\n``` */\n{NEW}"
    (block,) = fenced_blocks(fence(source, "cuda", "````"))
    assert block.text == source + "\n"


def test_all_blocks_are_kept_in_order() -> None:
    blocks = fenced_blocks(fence("a", "json") + fence("b") + fence("c", "bash", "~~~") + "```json\nd")
    assert [(b.language, b.text, b.closed) for b in blocks] == [
        ("json", "a\n", True), ("none", "b\n", True), ("other", "c\n", True), ("json", "d\n", False),
    ]  # fmt: skip


def test_inline_code_and_short_runs_are_no_fences() -> None:
    assert fenced_blocks("`a` ``b`` and ```c``` in a line\n") == ()


def test_text_between_thoughts_is_kept() -> None:
    assert without_thinking("<think>\na</think>b\n<think>c</think>d") == "b\nd"
    assert without_thinking("x < think > y") == "x < think > y"


PLANS = {
    "plain": fence(PLAN, "json"),
    "no tag": fence(PLAN),
    "javascript tag": fence(PLAN, "javascript"),
    "bare object": PLAN,
    "trailing comma": fence(PLAN.replace('"args": ["p"]', '"args": ["p",],'), "json"),
    "comments": fence("// the plan\n" + PLAN.replace('"block"', '/* one\nwarp */ "block"'), "jsonc"),
    "comma before a comment": fence(PLAN.replace('["p"]', '["p", // the output\n]'), "json"),
    "an example first": fence('{"grid": [1]}', "json") + fence(PLAN, "json"),
    "an older one first": fence(PLAN.replace("32", "64"), "json") + fence(PLAN, "json"),
    "notes last": fence(PLAN, "json") + fence('{"note": "done"}', "json"),
    "broken one first": fence('{"steps": [', "json") + fence(PLAN, "json"),
    "thinking": f"<think>\n{fence(PLAN.replace('32', '1'), 'json')}</think>{fence(PLAN, 'json')}",
}


@pytest.mark.parametrize("text", PLANS.values(), ids=PLANS)
def test_the_object_that_is_meant_is_found(text: str) -> None:
    assert pick_json(Reply(text), KEYS)["steps"][0]["block"] == [32]


def test_slashes_and_commas_inside_strings_are_kept() -> None:
    assert read_json('{"a": "x // y, }", "b": "/* z */",}') == {"a": "x // y, }", "b": "/* z */"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (fence('{"steps": [1, 2', "json"), "line 2, column 1|line 1, column"),
        (fence("{'steps': []}", "json"), "line 1, column 2"),
        (fence("[" * 100_000, "json"), "too deeply"),
        (fence("[1, 2]", "json"), "no fenced `json` block"),
        (fence('{"a": 1}', "json"), "schema, steps"),
        ("nothing", "no fenced `json` block"),
        (fence('{"steps": ' + "9" * 5000 + "}", "json"), "not JSON"),
    ],
)
def test_unusable_json_says_where(text: str, said: str) -> None:
    with pytest.raises(ReplyFault, match=said):
        pick_json(Reply(text), KEYS)


def test_a_refusal_in_json_is_the_models_own() -> None:
    with pytest.raises(ModelRefused, match="no computation"):
        pick_json(Reply(fence('{"refused": "this is no computation"}', "json")), KEYS)


def test_a_refusal_beside_an_answer_is_only_a_note() -> None:
    text = fence('{"refused": "an example of a refusal"}', "json") + fence(PLAN, "json")
    assert pick_json(Reply(text), KEYS)["schema"] == "cuda-harness/plan/1"


@pytest.mark.parametrize(
    "reply", [Reply("", refusal="I will not"), Reply("x", finish_reason="content_filter")]
)
def test_a_providers_refusal_is_raised(reply: Reply) -> None:
    with pytest.raises(ModelRefused, match="declined"):
        reply.raise_if_refused()


REFERENCE = "import numpy as np\n\n\ndef reference(inputs, dims, scalars):\n    return {}\n"


@pytest.mark.parametrize(
    "text",
    [
        fence(REFERENCE, "python"),
        fence(REFERENCE),
        fence("def reference(a): ...", "python") + fence(REFERENCE, "py"),
        fence(REFERENCE, "python") + fence("print(reference({}, {}, {}))", "python"),
        f"```python\n{REFERENCE}",
    ],
)
def test_the_reference_is_found(text: str) -> None:
    assert pick_python(Reply(text).blocks).strip() == REFERENCE.strip()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (fence("def other(): ...", "python"), "def reference"),
        (fence("def reference(inputs, dims, scalars):\n    return {", "python"), "line 2"),
        (fence("def reference(x):\n    return '\\d' + " + "(" * 5000, "python"), "does not parse"),
    ],
)
def test_an_unusable_reference_says_why(text: str, said: str) -> None:
    with pytest.raises(ReplyFault, match=said):
        pick_python(Reply(text).blocks)
