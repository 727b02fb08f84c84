"""One question: journal before parsing, one repair turn, truncation, refusals, resume."""

import json
from pathlib import Path

import pytest
from tests.fakes.scripted_model import Line, ScriptedChatModel
from tests.fakes.services import FakeServices

from cuda_harness.agents.ask import ReplyKey, ask, render, shown_ir
from cuda_harness.agents.reply import Reply, ReplyFault
from cuda_harness.prompts.loader import Prompt, Prompts
from cuda_harness.state.budget import Budget
from cuda_harness.state.errors import (
    BudgetExhausted,
    ConfigError,
    ContextTooLong,
    ModelRefused,
    ModelUnavailable,
    ReplyInvalid,
)
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.settings import ModelSettings, Settings

PROMPT = Prompt("roles/test", "planner", 1, "system words", "human words")
KEY = ReplyKey("planner")


def digits(reply: Reply) -> int:
    """A parser: the reply must be a number."""
    if not reply.text.strip().isdigit():
        msg = f"{reply.text[:20]!r} is no number"
        raise ReplyFault(msg)
    return int(reply.text)


def services(
    tmp_path: Path, *script: Line | str, settings: Settings | None = None
) -> tuple[FakeServices, ScriptedChatModel]:
    model = ScriptedChatModel(*script)
    return FakeServices(tmp_path, model, settings=settings), model


def test_a_good_reply_is_journalled_and_metered(tmp_path: Path) -> None:
    run, model = services(tmp_path, "42")
    assert ask(run, "planner", PROMPT, digits, key=KEY) == 42
    assert [m.type for m in model.seen[0]] == ["system", "human"]
    assert model.metadata_seen[0]["role"] == "planner"
    record = json.loads((tmp_path / "replies/planner-main-0-0.json").read_text())
    assert (record["reply"], record["finish_reason"], record["usage"]) == (
        "42", "stop", {"input_tokens": 100, "output_tokens": 10},
    )  # fmt: skip
    assert len(record["prompt_sha256"]) == 64
    spend = run.ledger.spend()
    assert (spend.calls, spend.input_tokens, spend.output_tokens, spend.usd) == (1, 100, 10, None)


def test_the_reply_is_on_disk_before_it_is_parsed(tmp_path: Path) -> None:
    run, _ = services(tmp_path, "42")
    seen: list[bool] = []

    def look(reply: Reply) -> str:
        seen.append((tmp_path / KEY.file).is_file())
        return reply.text

    ask(run, "planner", PROMPT, look, key=KEY)
    assert seen == [True]


def test_a_journalled_reply_is_read_and_no_call_is_made(tmp_path: Path) -> None:
    run, _ = services(tmp_path, "seven", "7")
    assert ask(run, "planner", PROMPT, digits, key=KEY) == 7
    again, model = services(tmp_path)
    assert ask(again, "planner", PROMPT, digits, key=KEY) == 7
    assert model.seen == []
    assert again.ledger.spend().calls == 2
    assert [f["prompt_differs"] for n, f in again.events if n == "reply_read_back"] == [False, False]


def test_a_journalled_reply_to_another_prompt_is_read_with_a_warning(tmp_path: Path) -> None:
    run, _ = services(tmp_path, "7")
    ask(run, "planner", PROMPT, digits, key=KEY)
    again, _ = services(tmp_path)
    assert ask(again, "planner", Prompt("n", "planner", 2, "s", "h"), digits, key=KEY) == 7
    assert ("reply_read_back", {"role": "planner", "ordinal": 0, "prompt_differs": True}) in again.events


def test_a_damaged_journal_is_told(tmp_path: Path) -> None:
    run, _ = services(tmp_path)
    run.folder.write_text(KEY.file, '{"schema": "other/1"}')
    with pytest.raises(ConfigError, match="damaged"):
        ask(run, "planner", PROMPT, digits, key=KEY)


def test_an_unusable_reply_gets_one_repair_turn_with_the_reason(tmp_path: Path) -> None:
    run, model = services(tmp_path, "seven ``` it is", "7")
    assert ask(run, "planner", PROMPT, digits, key=KEY) == 7
    system, human, assistant, repair = model.seen[1]
    assert [system.type, human.type, assistant.type, repair.type] == ["system", "human", "ai", "human"]
    assert assistant.content == "seven ``` it is"
    assert str(repair.content).startswith(
        "## Your last reply could not be used\n````text\n'seven ``` it is' is no number\n````"
    )
    assert run.names().count("reply_rejected") == 1


def test_a_second_unusable_reply_ends_the_question(tmp_path: Path) -> None:
    run, model = services(tmp_path, "seven", "eight", "9")
    with pytest.raises(ReplyInvalid, match="eight"):
        ask(run, "planner", PROMPT, digits, key=KEY)
    assert model.left == 1


def test_an_empty_reply_is_asked_again(tmp_path: Path) -> None:
    run, model = services(tmp_path, " \n", "7")
    assert ask(run, "planner", PROMPT, digits, key=KEY) == 7
    assert model.seen[1][2].content == "(empty)"
    assert "The reply was empty." in str(model.seen[1][3].content)


def test_a_cut_off_reply_is_asked_for_again_larger_and_is_no_repair(tmp_path: Path) -> None:
    run, model = services(tmp_path, Line("4", "length"), "seven", "7")
    assert ask(run, "planner", PROMPT, digits, key=KEY) == 7
    assert model.kwargs == [{}, {"max_tokens": 16_384}, {}]
    assert len(model.seen[1]) == 2
    assert len(model.seen[2]) == 4
    assert sorted(p.name for p in (tmp_path / "replies").iterdir()) == [
        f"planner-main-0-{i}.json" for i in range(3)
    ]


def test_the_larger_limit_grows_from_the_configured_one(tmp_path: Path) -> None:
    settings = Settings(provider=ModelSettings(max_output_tokens=8_000))
    run, model = services(tmp_path, Line("4", "length"), "7", settings=settings)
    assert ask(run, "planner", PROMPT, digits, key=KEY) == 7
    assert model.kwargs[1] == {"max_tokens": 32_000}


def test_a_reply_cut_off_twice_says_so_in_its_repair_turn(tmp_path: Path) -> None:
    run, model = services(tmp_path, Line("a", "length"), Line("b", "length"), "7")
    assert ask(run, "planner", PROMPT, digits, key=KEY) == 7
    assert "cut off at the output limit" in str(model.seen[2][3].content)


def test_a_cut_off_reply_is_resumed_without_a_call(tmp_path: Path) -> None:
    run, _ = services(tmp_path, Line("4", "length"), "7")
    ask(run, "planner", PROMPT, digits, key=KEY)
    again, model = services(tmp_path)
    assert ask(again, "planner", PROMPT, digits, key=KEY) == 7
    assert model.seen == []


@pytest.mark.parametrize("line", [Line("", refusal="no"), Line("no", finish_reason="content_filter")])
def test_a_refusal_is_raised_after_it_is_journalled(tmp_path: Path, line: Line) -> None:
    run, _ = services(tmp_path, line)
    with pytest.raises(ModelRefused):
        ask(run, "planner", PROMPT, digits, key=KEY)
    again, _ = services(tmp_path)
    with pytest.raises(ModelRefused):
        ask(again, "planner", PROMPT, digits, key=KEY)


def test_the_budget_stops_before_the_call(tmp_path: Path) -> None:
    run, model = services(tmp_path, "seven", "7", settings=Settings(budget=Budget(max_calls=1)))
    with pytest.raises(BudgetExhausted, match="max_calls"):
        ask(run, "planner", PROMPT, digits, key=KEY)
    assert (model.left, run.ledger.spend().calls) == (1, 1)


class StatusError(Exception):
    def __init__(self, status_code: int, message: str) -> None:
        super().__init__(message)
        self.status_code = status_code


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (StatusError(401, "bad key"), ConfigError),
        (StatusError(400, "maximum context length is 4096 tokens"), ContextTooLong),
        (StatusError(503, "overloaded"), ModelUnavailable),
        (ConnectionError("refused"), ModelUnavailable),
    ],
)
def test_a_failed_call_is_mapped_and_costs_nothing(
    tmp_path: Path, error: Exception, expected: type[Exception]
) -> None:
    run, _ = services(tmp_path, Line(error=error), "7", settings=Settings(budget=Budget(max_calls=1)))
    with pytest.raises(expected):
        ask(run, "planner", PROMPT, digits, key=KEY)
    assert not (tmp_path / KEY.file).exists()
    assert ask(run, "planner", PROMPT, digits, key=KEY) == 7


def test_a_cancelled_run_makes_no_call(tmp_path: Path) -> None:
    run, model = services(tmp_path, "7")
    run.cancelled.set()
    with pytest.raises(KeyboardInterrupt):
        ask(run, "planner", PROMPT, digits, key=KEY)
    assert model.left == 1


def test_a_missing_usage_makes_the_spend_unknown(tmp_path: Path) -> None:
    run, _ = services(tmp_path, Line("7", input_tokens=None))
    ask(run, "planner", PROMPT, digits, key=KEY)
    spend = run.ledger.spend()
    assert (spend.calls, spend.input_tokens, spend.output_tokens) == (1, None, None)


def test_a_broken_template_of_the_user_is_a_configuration_error(tmp_path: Path) -> None:
    run, _ = services(tmp_path / "run")
    (tmp_path / "own/roles").mkdir(parents=True)
    (tmp_path / "own/roles/planner.md.j2").write_text(
        "{# role: planner; version: 9 #}{% block system %}{% endblock %}"
    )
    run.prompts = Prompts(tmp_path / "own")
    with pytest.raises(ConfigError, match="no block 'human'"):
        render(run, "roles/planner", request="r", target={})


def test_a_call_past_the_script_fails_the_test(tmp_path: Path) -> None:
    run, _ = services(tmp_path)
    with pytest.raises(pytest.fail.Exception, match="the script is at its end"):
        ask(run, "planner", PROMPT, digits, key=KEY)


def test_an_ir_is_shown_without_what_says_nothing_and_reads_back_the_same() -> None:
    rules = (
        {"mode": "close", "rtol": 1e-3},
        {"mode": "index", "of": "x", "ties": "any"},
        {"mode": "packed_u8", "max_step": 2},
        {"mode": "exact"},
        None,
    )
    outs = [
        {"name": f"y{n}", "role": "out", "dtype": "uint8", "shape": ["n"], **({"compare": rule} if rule else {})}
        for n, rule in enumerate(rules)
    ]  # fmt: skip
    ir = KernelIR.model_validate({
        "name": "f", "dims": [{"name": "n", "value": 8, "fixed": True}],
        "tensors": [{"name": "x", "role": "in", "dtype": "uint8", "shape": ["n"]}, *outs],
    })  # fmt: skip
    shown = shown_ir(ir)
    assert [t.get("compare") for t in shown["tensors"][1:]] == list(rules)
    assert shown["dims"] == [{"name": "n", "value": 8, "min": 1, "fixed": True}]
    assert not {"edge_rules", "assumptions", "intermediates"} & set(shown)
    assert KernelIR.model_validate(shown) == ir


def test_a_role_is_shown_what_it_has_a_use_for() -> None:
    reading = {"value": "sum", "consequence": "one number"}
    ir = KernelIR.model_validate({
        "name": "f", "dims": [{"name": "n", "value": 8}],
        "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]}, {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
        "assumptions": [{"what": "axis", "value": "last", "why": "usual", "readings": [reading, reading]}], "cost": {"flops": "n"},
        "mapping": {"notes": "a thread an element", "bound": "memory"},
    })  # fmt: skip
    assert shown_ir(ir, readings=True)["assumptions"][0]["readings"] == [reading, reading]
    assert shown_ir(ir)["assumptions"] == [{"what": "axis", "value": "last", "why": "usual"}]
    assert not {"cost", "mapping"} & set(shown_ir(ir, without=("cost", "mapping")))
