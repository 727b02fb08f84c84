"""The real ChatOpenAI against a scripted endpoint on loopback."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_openai.chat_models import _client_utils
from pydantic import SecretStr
from tests.fakes.openai_server import HTML, Answer, OpenAIServer, failure, openai_server
from tests.fakes.services import FakeServices

from cuda_harness.agents.ask import ReplyKey, ask
from cuda_harness.agents.llm.openai import OpenAIChat, make
from cuda_harness.agents.reply import Reply, ReplyFault
from cuda_harness.prompts.loader import Prompt
from cuda_harness.state.errors import (
    ConfigError,
    ContextTooLong,
    HarnessError,
    ModelRefused,
    ModelUnavailable,
)
from cuda_harness.state.settings import ModelSettings, Settings

pytestmark = [pytest.mark.network]
PROMPT = Prompt("roles/test", "planner", 1, "system", "human")
KEY = ReplyKey("planner")
OK = Answer("42")


def digits(reply: Reply) -> int:
    if not reply.text.strip().isdigit():
        msg = "no number"
        raise ReplyFault(msg)
    return int(reply.text)


def run_of(
    tmp_path: Path, server: OpenAIServer, **provider: Any
) -> tuple[FakeServices, OpenAIChat, list[float]]:
    given = {"base_url": server.url, "api_key": SecretStr("sk-test-0123456789"), "timeout_s": 5.0, **provider}
    settings = Settings(provider=ModelSettings(**given))
    model = make("fake", role="planner", settings=settings)
    waits: list[float] = []
    model._sleep = waits.append
    return FakeServices(tmp_path, model, settings=settings), model, waits


def answer(run: FakeServices) -> int:
    return ask(run, "planner", PROMPT, digits, key=KEY)


@pytest.fixture
def close() -> Iterator[list[OpenAIChat]]:
    """Models whose HTTP clients are closed at the end."""
    models: list[OpenAIChat] = []
    yield models
    for model in models:
        model.root_client.close()
    # langchain-openai keeps a client for each address, and a later server may get the port of an earlier one.
    _client_utils._cached_sync_httpx_client.cache_clear()


def test_a_plain_call(tmp_path: Path, close: list[OpenAIChat]) -> None:
    with openai_server(OK) as server:
        run, model, waits = run_of(tmp_path, server)
        close.append(model)
        assert answer(run) == 42
    (body,) = server.requests
    assert [m["role"] for m in body["messages"]] == ["system", "user"]
    assert body["model"] == "fake"
    assert not body.get("stream")
    assert not {"response_format", "tools", "max_tokens", "temperature"} & set(body)
    assert server.authorization == ["Bearer sk-test-0123456789"]
    assert waits == []
    assert run.ledger.spend().input_tokens == 100


def test_settings_reach_the_request(tmp_path: Path, close: list[OpenAIChat]) -> None:
    with openai_server(Answer("4", finish_reason="length"), OK) as server:
        run, model, _ = run_of(
            tmp_path,
            server,
            temperature=0.5,
            max_output_tokens=1000,
            extra_body={"top_k": 3, "max_tokens": 1000},
        )
        close.append(model)
        assert answer(run) == 42
    first, second = server.requests
    assert (first["temperature"], first["top_k"], first["max_tokens"]) == (0.5, 3, 1000)
    assert first["max_completion_tokens"] == 1000
    assert second["max_completion_tokens"] == second["max_tokens"] == 16_384
    assert second["top_k"] == 3


@pytest.mark.parametrize(
    "script",
    [
        [failure(429, "slow down", retry_after="7"), OK],
        [failure(500, "oops"), failure(503, "busy"), OK],
        [Answer(hang_up=True), OK],
        [failure(529, "overloaded"), OK],
    ],
)
def test_transient_failures_are_retried(
    tmp_path: Path, close: list[OpenAIChat], script: list[Answer]
) -> None:
    with openai_server(*script) as server:
        run, model, waits = run_of(tmp_path, server)
        close.append(model)
        assert answer(run) == 42
    assert len(waits) == len(server.requests) - 1 == len(script) - 1
    assert run.ledger.spend().calls == 1


def test_retry_after_is_honoured(tmp_path: Path, close: list[OpenAIChat]) -> None:
    with openai_server(failure(429, "slow down", retry_after="7"), OK) as server:
        run, model, waits = run_of(tmp_path, server)
        close.append(model)
        answer(run)
    assert waits == [7.0]


def test_a_wait_past_the_deadline_is_not_begun(tmp_path: Path, close: list[OpenAIChat]) -> None:
    with openai_server(failure(429, "come back tomorrow", retry_after="3600"), OK) as server:
        run, model, waits = run_of(tmp_path, server)
        close.append(model)
        with pytest.raises(ModelUnavailable, match="come back tomorrow"):
            answer(run)
    assert waits == []


def test_retries_end(tmp_path: Path, close: list[OpenAIChat]) -> None:
    with openai_server(*[failure(503, "busy")] * 9) as server:
        run, model, waits = run_of(tmp_path, server, retries=2)
        close.append(model)
        with pytest.raises(ModelUnavailable, match=r"failed \(503\): .*busy"):
            answer(run)
    assert (len(server.requests), len(waits)) == (3, 2)


@pytest.mark.parametrize(
    ("bad", "error", "said"),
    [
        (failure(401, "Incorrect API key provided"), ConfigError, "refused the key .*Incorrect API key"),
        (failure(403, "no access to this model"), ConfigError, "refused the key"),
        (failure(404, "The model `fake` does not exist"), ConfigError, "no model 'fake'"),
        (
            Answer(status=404, body=HTML.body, content_type="text/html"),
            ConfigError,
            "HTML page: .*Welcome to nginx!",
        ),
        (failure(400, "Unsupported value: temperature"), ConfigError, r"refused the call \(400\)"),
        (failure(400, "too long", code="context_length_exceeded"), ContextTooLong, "does not fit"),
        (failure(400, "This model's maximum context length is 8 tokens"), ContextTooLong, "does not fit"),
        (failure(413, "payload too large"), ContextTooLong, "does not fit"),
        (failure(400, "blocked by the content_policy"), ModelRefused, "declined"),
        (failure(429, "You exceeded your current quota", code="insufficient_quota"), ModelUnavailable, "429"),
        (HTML, ModelUnavailable, "did not answer like a chat model"),
        (Answer(body="{}"), ModelUnavailable, "did not answer like a chat model"),
        (Answer(body="not json"), ModelUnavailable, "did not answer like a chat model"),
        (Answer(body='{"choices": []}'), ModelUnavailable, "did not answer like a chat model"),
        (Answer("", refusal="I must not"), ModelRefused, "I must not"),
        (Answer("x", finish_reason="content_filter"), ModelRefused, "declined"),
    ],
)
def test_what_cannot_be_retried_is_told_at_once(
    tmp_path: Path, close: list[OpenAIChat], bad: Answer, error: type[HarnessError], said: str
) -> None:
    with openai_server(bad) as server:
        run, model, waits = run_of(tmp_path, server)
        close.append(model)
        with pytest.raises(error, match=said) as raised:
            answer(run)
    assert waits == []
    assert raised.value.remedy
    assert "sk-test" not in str(raised.value)


def test_a_slow_endpoint_is_left_in_time(tmp_path: Path, close: list[OpenAIChat]) -> None:
    with openai_server(Answer("42", delay_s=1.5)) as server:
        run, model, _ = run_of(tmp_path, server, timeout_s=0.2, retries=0)
        close.append(model)
        with pytest.raises(ModelUnavailable, match="did not answer in time"):
            answer(run)


def test_an_endpoint_that_is_down(tmp_path: Path, close: list[OpenAIChat]) -> None:
    with openai_server() as server:
        pass
    run, model, waits = run_of(tmp_path, server, retries=1)
    close.append(model)
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        answer(run)
    assert len(waits) == 1


@pytest.mark.parametrize(
    "usage", [None, {"prompt_tokens": 100, "completion_tokens": None, "total_tokens": 100}]
)
def test_a_missing_usage_is_unknown(
    tmp_path: Path, close: list[OpenAIChat], usage: dict[str, int] | None
) -> None:
    with openai_server(Answer("42", usage=usage)) as server:
        run, model, _ = run_of(tmp_path, server)
        close.append(model)
        assert answer(run) == 42
    assert run.ledger.spend().input_tokens is None


def test_malformed_answers_are_repaired_over_the_wire(tmp_path: Path, close: list[OpenAIChat]) -> None:
    with openai_server(Answer(""), OK) as server:
        run, model, _ = run_of(tmp_path, server)
        close.append(model)
        assert answer(run) == 42
    assert [m["role"] for m in server.requests[1]["messages"]] == ["system", "user", "assistant", "user"]


def test_the_rate_limit_spaces_calls(tmp_path: Path, close: list[OpenAIChat]) -> None:
    with openai_server(Answer("no"), OK) as server:
        run, model, _ = run_of(tmp_path, server, requests_per_minute=120)
        close.append(model)
        assert answer(run) == 42
    assert server.times[1] - server.times[0] > 0.35


def test_all_roles_share_one_rate_limit() -> None:
    settings = Settings(provider=ModelSettings(base_url="http://127.0.0.1:9/v1", requests_per_minute=30))
    one, two = (make("fake", role=role, settings=settings) for role in ("coder", "planner"))
    assert one.rate_limiter is two.rate_limiter
