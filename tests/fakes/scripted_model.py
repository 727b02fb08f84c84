"""A chat model that answers from a script; a call past its script fails the test."""

from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr


@dataclass(frozen=True)
class Line:
    """One scripted answer."""

    text: str = ""
    finish_reason: str = "stop"
    input_tokens: int | None = 100
    """`None`: the provider reports no usage."""
    output_tokens: int | None = 10
    refusal: str | None = None
    error: Exception | None = None
    """Raised in place of an answer."""


class ScriptedChatModel(BaseChatModel):
    """Answers line by line, and keeps what it was asked."""

    model_name: str = "scripted"
    _script: list[Line] = PrivateAttr(default_factory=list)
    _seen: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _kwargs: list[dict[str, Any]] = PrivateAttr(default_factory=list)
    _metadata: list[dict[str, Any]] = PrivateAttr(default_factory=list)

    def __init__(self, *script: Line | str, **fields: Any) -> None:
        super().__init__(**fields)
        self._script = [Line(line) if isinstance(line, str) else line for line in script]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    @property
    def seen(self) -> list[list[BaseMessage]]:
        """The messages of each call."""
        return self._seen

    @property
    def kwargs(self) -> list[dict[str, Any]]:
        """The extra arguments of each call."""
        return self._kwargs

    @property
    def metadata_seen(self) -> list[dict[str, Any]]:
        """The run metadata of each call."""
        return self._metadata

    @property
    def left(self) -> int:
        """Answers not yet given."""
        return len(self._script)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self._seen.append(list(messages))
        self._kwargs.append(kwargs)
        self._metadata.append(dict((run_manager.metadata if run_manager else None) or {}))
        if not self._script:
            msg = f"the script is at its end, and call {len(self._seen)} came: {str(messages[-1].content)[:200]}"
            pytest.fail(msg)  # no Exception, so nothing maps it to a provider failure
        line = self._script.pop(0)
        if line.error is not None:
            raise line.error
        usage = None
        if line.input_tokens is not None and line.output_tokens is not None:
            usage = {
                "input_tokens": line.input_tokens,
                "output_tokens": line.output_tokens,
                "total_tokens": line.input_tokens + line.output_tokens,
            }
        extra = {"refusal": line.refusal} if line.refusal else {}
        message = AIMessage(
            content=line.text,
            response_metadata={"finish_reason": line.finish_reason},
            usage_metadata=usage,
            additional_kwargs=extra,
        )
        return ChatResult(generations=[ChatGeneration(message=message)])
