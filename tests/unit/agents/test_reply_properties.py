"""Whatever a model says, parsing ends with a block, a fault or a refusal, and quickly."""

import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from cuda_harness.prompts.loader import fenced
from cuda_harness.state.errors import ModelRefused

PIECES = st.sampled_from(
    ["```", "````", "~~~", "```cuda", "```json", "```python", "\n", "<think>", "</think>", '{"steps": [', "]}", ",", "//",
     "/*", "*/", '"', "\\", "__global__ void k(", "def reference(", "refused", "{", "}", " ", "\r\n", "é", "\x00", "\ud800"]
)  # fmt: skip
REPLIES = st.lists(PIECES | st.text(max_size=8), max_size=60).map("".join)
NESTED = (
    "".join("`" * n + "md\n" for n in range(1500, 2, -1))
    + "x\n"
    + "".join("`" * n + "\n" for n in range(3, 1500))
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda c: st.lists(c, max_size=4) | st.dictionaries(st.text(), c, max_size=4),
    max_leaves=12,
)


@given(REPLIES)
def test_parsing_never_breaks(text: str) -> None:
    reply = Reply(text)
    for pick in (
        lambda: pick_kernel(reply.blocks, ["k"]),
        lambda: pick_python(reply.blocks),
        lambda: pick_json(reply, ["steps"]),
    ):
        with contextlib.suppress(ReplyFault, ModelRefused):
            assert pick()


@given(st.lists(st.text(), max_size=4))
def test_blocks_written_with_our_own_fences_come_back(texts: list[str]) -> None:
    bodies = [t.replace("\r", "") for t in texts if t.strip() and t.strip("\n") == t]
    bodies = [b for b in bodies if b.strip()]
    markdown = "\n".join(fenced(b, "cuda") + "\n" for b in bodies)
    expected = [b.encode("utf-8", "replace").decode() + "\n" for b in bodies]
    assert [b.text for b in fenced_blocks(markdown)] == expected


@given(JSON)
def test_json_is_read_as_it_is(value: object) -> None:
    assert read_json(json.dumps(value)) == value


@given(JSON)
def test_comments_and_trailing_commas_change_nothing(value: object) -> None:
    text = json.dumps(value, indent=1).replace("\n", ' // a " note, }\n')
    assert read_json(text + "\n/* end */") == value


@given(st.text())
def test_thinking_is_only_ever_removed(text: str) -> None:
    assert len(without_thinking(text)) <= len(text)


@pytest.mark.parametrize(
    "text",
    ["<think>\n" * 200_000, "```\n" * 100_000, "`" * 2_000_000, '{"steps": "' + "\\" * 1_000_000, "/*" * 1_000_000,
     "```json\n" + '{"a":' * 300_000, "</think>" * 200_000, "```markdown\n" * 50_000, NESTED],
    ids=["thoughts", "fences", "backticks", "escapes", "comments", "nesting", "closings", "wrappings", "nested"],
)  # fmt: skip
def test_a_hostile_reply_is_read_in_time(text: str) -> None:
    start = time.process_time()
    reply = Reply(text)
    with pytest.raises(ReplyFault):
        pick_json(reply, ["steps"])
    with pytest.raises(ReplyFault):
        pick_kernel(reply.blocks)
    assert time.process_time() - start < 10
