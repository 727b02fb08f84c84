"""Recordings: a round trip, matched by role, branch and ordinal; a strict reader; never the network."""

import json
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from tests.fakes.scripted_model import Line, ScriptedChatModel
from tests.fakes.services import FakeServices

from cuda_harness.agents.ask import ReplyKey, ask
from cuda_harness.agents.llm.providers import chat_model
from cuda_harness.agents.llm.recording import MAX_LINE_BYTES, RecordingChat, read_recording
from cuda_harness.agents.reply import Reply, ReplyFault
from cuda_harness.prompts.loader import Prompt
from cuda_harness.state.errors import ConfigError, ModelRefused, ModelUnavailable
from cuda_harness.state.settings import Settings

PROMPT = Prompt("roles/test", "coder", 1, "system", "human")


def long_enough(reply: Reply) -> str:
    if len(reply.text) < 3:
        msg = "too short"
        raise ReplyFault(msg)
    return reply.text


def record(path: Path, root: Path, *script: Line | str) -> FakeServices:
    inner = ScriptedChatModel(*script)
    return FakeServices(root, RecordingChat(inner=inner, path=path, role="coder", model_name="scripted"))


def replay(path: Path, root: Path) -> FakeServices:
    return FakeServices(root, chat_model(f"replay:{path}", role="coder", settings=Settings()))


def test_a_recorded_run_replays_to_the_same_answers(tmp_path: Path) -> None:
    path = tmp_path / "deep/run.jsonl"
    script = (Line("cut", "length"), "ok", "the answer ✓", Line("other branch", input_tokens=None))
    first = record(path, tmp_path / "a", *script)
    keys = [ReplyKey("coder", "main", 3), ReplyKey("coder", "b1", 3)]
    answers = [ask(first, "coder", PROMPT, long_enough, key=k) for k in keys]
    assert answers == ["the answer ✓", "other branch"]

    second = replay(path, tmp_path / "b")
    assert [ask(second, "coder", PROMPT, long_enough, key=k) for k in keys] == answers
    assert second.ledger.spend().calls == first.ledger.spend().calls == 4
    assert second.ledger.spend().input_tokens is None
    told = [f["prompt_differs"] for n, f in second.events if n == "model_replied"]
    assert told == [None] * 4


def test_each_line_has_the_fields_of_the_contract(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    ask(record(path, tmp_path / "a", "fine"), "coder", PROMPT, long_enough, key=ReplyKey("coder"))
    (line,) = map(json.loads, path.read_text().splitlines())
    assert line["schema"] == "cuda-harness/recording/1"
    assert set(line) >= {"role", "branch", "ordinal", "prompt_sha256", "reply", "finish_reason", "usage"}
    assert line["usage"] == {"input_tokens": 100, "output_tokens": 10}


def test_a_refusal_is_replayed_as_one(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    for make in (
        lambda: record(path, tmp_path / "a", Line("", refusal="I will not")),
        lambda: replay(path, tmp_path / "b"),
    ):
        run = make()
        with pytest.raises(ModelRefused, match="I will not"):
            ask(run, "coder", PROMPT, long_enough, key=ReplyKey("coder"))


def test_another_prompt_is_answered_with_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    ask(record(path, tmp_path / "a", "fine"), "coder", PROMPT, long_enough, key=ReplyKey("coder"))
    run = replay(path, tmp_path / "b")
    other = Prompt("roles/test", "coder", 2, "system", "other words")
    assert ask(run, "coder", other, long_enough, key=ReplyKey("coder")) == "fine"
    assert [f["prompt_differs"] for n, f in run.events if n == "model_replied"] == [True]


def test_a_missing_reply_is_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    ask(record(path, tmp_path / "a", "fine"), "coder", PROMPT, long_enough, key=ReplyKey("coder"))
    with pytest.raises(ModelUnavailable, match="role 'coder', branch 'main', ordinal 1, turn 0") as error:
        ask(replay(path, tmp_path / "b"), "coder", PROMPT, long_enough, key=ReplyKey("coder", ordinal=1))
    assert error.value.exit_code == 4


def test_lines_without_turns_answer_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "hand.jsonl"
    lines = [{"role": "coder", "branch": "main", "ordinal": 0, "reply": text} for text in ("no", "yes")]
    path.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    assert ask(replay(path, tmp_path / "b"), "coder", PROMPT, long_enough, key=ReplyKey("coder")) == "yes"


def test_the_later_of_two_records_for_one_place_wins(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    lines = [{"role": "coder", "ordinal": 0, "turn": 0, "reply": text} for text in ("old", "new")]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert read_recording(path)["coder", "main", 0][0].reply == "new"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1 .* is not JSON"),
        ("[1]", "line 1"),
        ("\xff", "line 1"),
        ('{"role": "coder", "ordinal": 0}', "reply"),
        ('{"role": "coder", "ordinal": -1, "reply": ""}', "ordinal"),
        ('{"role": "coder", "ordinal": 0, "reply": "", "exec": "rm"}', "exec"),
        ('{"schema": "cuda-harness/recording/2", "role": "coder", "ordinal": 0, "reply": ""}', "recording/2"),
        ("[" * 200_000, "line 1"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(line.encode("latin-1"))
    with pytest.raises(ConfigError, match=said):
        read_recording(path)


def test_an_enormous_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"x" * (MAX_LINE_BYTES + 1))
    with pytest.raises(ConfigError, match="too long at line 1"):
        read_recording(path)


@pytest.mark.parametrize(
    "spec", ["replay:", "replay:/does/not/exist", "record:only-a-file", "record:f:nobody:x"]
)
def test_a_spec_that_cannot_work_is_a_usage_error(spec: str) -> None:
    with pytest.raises(ConfigError):
        chat_model(spec, role="coder", settings=Settings())


def test_a_recording_may_wrap_a_replay(tmp_path: Path) -> None:
    source, copy = tmp_path / "a:b.jsonl", tmp_path / "copy.jsonl"
    source.write_text(json.dumps({"role": "coder", "ordinal": 0, "reply": "fine"}))
    model = chat_model(f"record:{copy}:replay:{source}", role="coder", settings=Settings())
    assert model.invoke([HumanMessage("x")]).content == "fine"
    assert read_recording(copy)["coder", "main", 0][0].reply == "fine"


def test_a_recording_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = record(tmp_path / "file/run.jsonl", tmp_path / "a", "fine")
    with pytest.raises(ConfigError, match="cannot write the recording"):
        ask(run, "coder", PROMPT, long_enough, key=ReplyKey("coder"))
