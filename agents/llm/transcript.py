"""From LangChain's messages to plain replies: text, why it ended, tokens, and the hash of what was asked."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cuda_harness.agents.reply import Reply
from cuda_harness.state.budget import Usage
from cuda_harness.state.serde import sha256

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

_LENGTH = frozenset({"length", "max_tokens", "max_output_tokens", "max_completion_tokens", "model_length"})
_FILTER = frozenset(
    {"content_filter", "content-filter", "refusal", "safety", "prohibited_content", "blocklist"}
)


def conversation_sha256(messages: "Sequence[BaseMessage]") -> str:
    """Return the identity of what a model is asked: kinds and texts of all messages."""
    return sha256([[m.type, text_of(m.content)] for m in messages])


def text_of(content: Any) -> str:  # noqa: ANN401 - text, or a provider's list of parts
    """Return the answer text of a message's content; reasoning parts are left out."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = []
    for part in content:
        if isinstance(part, str):
            parts.append(part)
        elif isinstance(part, Mapping) and part.get("type", "text") in {"text", "output_text"}:
            parts.append(str(part.get("text", "")))
    return "".join(parts)


def reply_of(message: "BaseMessage") -> Reply:
    """Return what `message` says, with the provider's words for its end brought to OpenAI's."""
    metadata = message.response_metadata
    reason = metadata.get("finish_reason") or metadata.get("stop_reason") or metadata.get("done_reason")
    reason = str(reason).lower() if reason is not None else None
    if reason in _LENGTH:
        reason = "length"
    elif reason in _FILTER:
        reason = "content_filter"
    refusal = message.additional_kwargs.get("refusal")
    return Reply(
        text=text_of(message.content).encode("utf-8", "replace").decode(),
        finish_reason=reason,
        refusal=str(refusal) if refusal else None,
        usage=_usage(message),
    )


def _usage(message: "BaseMessage") -> Usage:
    """Return the reported tokens; a count that is no natural number is unknown.

    LangChain turns a count that an OpenAI-compatible server left out into 0, so the server's own words are asked.
    """
    metered: Mapping[str, Any] = getattr(message, "usage_metadata", None) or {}
    raw = message.response_metadata.get("token_usage")
    said: Mapping[str, Any] = raw if isinstance(raw, Mapping) else {}

    def count(name: str, theirs: str) -> int | None:
        value = metered.get(name)
        if theirs in said and not said[theirs]:
            return None
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

    return Usage(
        input_tokens=count("input_tokens", "prompt_tokens"),
        output_tokens=count("output_tokens", "completion_tokens"),
    )
