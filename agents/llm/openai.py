"""`openai:NAME`: any OpenAI-compatible endpoint through langchain-openai, with one retry layer of our own.

Plain chat completions only (no json_schema, no tools), so any server works.
"""

import time
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langchain_core.rate_limiters import InMemoryRateLimiter
from langchain_openai import ChatOpenAI
from pydantic import PrivateAttr, SecretStr
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, stop_any
from tenacity.stop import stop_base
from tenacity.wait import wait_random_exponential

from cuda_harness.agents.llm.errors import is_transient, provider_error, retry_after_s
from cuda_harness.state.errors import ConfigError
from cuda_harness.state.settings import ModelSettings, Settings

PUBLIC_URL = "https://api.openai.com/v1"
LONGEST_WAIT_S = 60.0
_backoff = wait_random_exponential(multiplier=1.0, max=LONGEST_WAIT_S)


class OpenAIChat(ChatOpenAI):
    """ChatOpenAI whose failures are retried here, once as a layer, and raised as our errors."""

    _retries: int = PrivateAttr(default=5)
    _deadline_s: float = PrivateAttr(default=1800.0)
    _sleep: Callable[[float], None] = PrivateAttr(default=time.sleep)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,  # noqa: ANN401 - LangChain's own signature
    ) -> ChatResult:
        if "max_tokens" in kwargs and self.extra_body and "max_tokens" in self.extra_body:
            # Servers that ignore max_completion_tokens are given the limit in the body: keep the two alike.
            kwargs["extra_body"] = {**self.extra_body, "max_tokens": kwargs["max_tokens"]}
        retrying = Retrying(
            stop=stop_any(stop_after_attempt(self._retries + 1), _waits_too_long(self._deadline_s)),
            wait=_wait,
            retry=retry_if_exception(is_transient),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return retrying(super()._generate, messages, stop, run_manager, **kwargs)
        except Exception as exc:
            error = provider_error(exc, model=self.model_name, where=_host(self.openai_api_base))
            raise error from exc


def _wait(state: RetryCallState) -> float:
    """Return the seconds the server asked for, else exponential backoff with full jitter."""
    error = state.outcome.exception() if state.outcome is not None else None
    asked = retry_after_s(error) if error is not None else None
    return asked if asked is not None else float(_backoff(state))


class _waits_too_long(stop_base):  # noqa: N801 - reads like tenacity's own conditions
    """Stop when the next wait would end after the deadline."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s

    def __call__(self, retry_state: RetryCallState) -> bool:
        return (retry_state.seconds_since_start or 0.0) + retry_state.upcoming_sleep >= self._deadline_s


def make(argument: str, *, role: str, settings: Settings) -> OpenAIChat:  # noqa: ARG001 - the registry's signature
    """Return the chat model `argument`, or the configured default when it is empty.

    Raises:
        ConfigError: If no model is named, or neither a key nor a base URL is set; the user acts.
    """
    given = settings.provider
    name = argument or given.name
    if not name:
        msg = "no model is named"
        raise ConfigError(msg, remedy="give one: --model openai:NAME")
    if given.api_key is None and given.base_url is None:
        msg = f"model {name!r} needs an endpoint, and neither a key nor a base URL is set"
        raise ConfigError(
            msg, remedy="set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own; or --model offline"
        )
    if given.base_url is not None and urlsplit(given.base_url).scheme not in {"http", "https"}:
        msg = f"the base URL {given.base_url!r} does not begin with http:// or https://"
        raise ConfigError(msg, remedy="set OPENAI_BASE_URL, for example http://127.0.0.1:8000/v1")
    model = OpenAIChat(**_arguments(name, given))
    model._retries = given.retries  # noqa: SLF001 - our own private attributes
    model._deadline_s = given.timeout_s * 3  # noqa: SLF001
    return model


def _arguments(name: str, given: ModelSettings) -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "model": name,
        "base_url": given.base_url or PUBLIC_URL,
        # A local server needs no key, but the client insists on one.
        "api_key": given.api_key or SecretStr("none"),
        "timeout": given.timeout_s,
        "max_retries": 0,
        "use_responses_api": False,
    }
    if given.max_output_tokens is not None:
        arguments["max_tokens"] = given.max_output_tokens
    if given.temperature is not None:
        arguments["temperature"] = given.temperature
    if given.extra_body:
        arguments["extra_body"] = dict(given.extra_body)
    if given.requests_per_minute is not None:
        arguments["rate_limiter"] = _limiter(given.base_url or PUBLIC_URL, given.requests_per_minute)
    return arguments


@cache
def _limiter(url: str, per_minute: float) -> InMemoryRateLimiter:  # noqa: ARG001 - the key: one bucket an endpoint
    """Return the bucket that all roles and branches of this process share for one endpoint."""
    return InMemoryRateLimiter(
        requests_per_second=per_minute / 60, max_bucket_size=1, check_every_n_seconds=0.05
    )


def _host(url: str | None) -> str:
    """Return scheme, host and path of a URL, without credentials and query."""
    parts = urlsplit(url or "")
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
