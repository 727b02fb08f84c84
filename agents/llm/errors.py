"""Provider errors, mapped in one place: who must act, and whether another try makes sense.

Duck-typed over status codes and class names, so every LangChain provider is covered without importing it.
"""

import contextlib
import re

from cuda_harness.state.errors import (
    ConfigError,
    ContextTooLong,
    HarnessError,
    ModelRefused,
    ModelUnavailable,
)

RETRIED_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_CONNECTION = ("APIConnectionError", "APITimeoutError", "ConnectError", "ReadError", "RemoteProtocolError",
               "TimeoutException", "ConnectionError", "TimeoutError")  # fmt: skip
_TOO_LONG = re.compile(
    r"context[ _]?(length|window|size|limit)|prompt is too long|too many (input )?tokens|maximum context"
    r"|input tokens exceed|exceeds? the .{0,40}context|reduce the length",
    re.IGNORECASE,
)
_FILTERED = re.compile(
    r"content[_ ](policy|filter|management)|safety|moderation|responsible ai", re.IGNORECASE
)
_NO_MONEY = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.IGNORECASE)


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status an exception carries, `None` for none."""
    status = getattr(error, "status_code", None)
    if status is None:
        status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def retry_after_s(error: BaseException) -> float | None:
    """Return the seconds a server asks to wait (`Retry-After`, `retry-after-ms`), `None` when it does not say."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
        except (TypeError, ValueError):
            continue
        if 0 <= seconds < 86_400:
            return seconds
    return None


def is_transient(error: BaseException) -> bool:
    """Return whether the same call may work in a moment: 429, 5xx and broken connections."""
    status = status_of(error)
    if status is not None:
        return status in RETRIED_STATUS and not (status == 429 and _NO_MONEY.search(_said(error)))
    return _is_connection(error)


def provider_error(error: Exception, *, model: str, where: str = "") -> HarnessError:
    """Return our error for a provider's.

    Args:
        error: What the provider's client raised.
        model: Name of the model, for the message.
        where: The endpoint, for the message; without credentials.
    """
    if isinstance(error, HarnessError):
        return error
    status = status_of(error)
    said = excerpt(_said(error))
    place = f" at {where}" if where else ""
    names = {c.__name__ for c in type(error).__mro__}
    if status == 413 or any("ContextOverflow" in n for n in names) or (
        status in {400, 422, 500} and _TOO_LONG.search(_said(error))
    ):  # fmt: skip
        msg = f"the prompt does not fit model {model!r}: {said}"
        return ContextTooLong(msg, remedy="shorten the request, or choose a model with a longer context")
    if "ModelRefusalError" in names or (status in {400, 403} and _FILTERED.search(_said(error))):
        return ModelRefused(f"the provider declined to answer: {said}", remedy="reword the request")
    if status in {401, 403}:
        msg = f"the endpoint{place} refused the key ({status}): {said}"
        return ConfigError(msg, remedy="set OPENAI_API_KEY to a key that may use this model")
    if status == 404:
        msg = f"the endpoint{place} knows no model {model!r} or no such route (404): {said}"
        return ConfigError(
            msg, remedy="check the name after `openai:` and OPENAI_BASE_URL (it usually ends in /v1)"
        )
    if status is not None and 400 <= status < 500 and status not in RETRIED_STATUS:
        msg = f"the endpoint{place} refused the call ({status}): {said}"
        return ConfigError(msg, remedy="check the [provider] settings: temperature, extra_body, limits")
    if status == 429:
        remedy = "wait, lower [provider] requests_per_minute, or raise the provider's limit"
        return ModelUnavailable(
            f"the endpoint{place} is rate-limited or out of quota (429): {said}", remedy=remedy
        )
    remedy = "check that the endpoint is up, then `cuda-harness resume` the run"
    if status is not None and status >= 300:
        return ModelUnavailable(f"the endpoint{place} failed ({status}): {said}", remedy=remedy)
    if any("Timeout" in n for n in names):
        msg = f"the endpoint{place} did not answer in time"
        return ModelUnavailable(msg, remedy="raise [provider] timeout_s, or " + remedy)
    if _is_connection(error):
        return ModelUnavailable(f"the endpoint{place} cannot be reached: {said}", remedy=remedy)
    msg = f"the endpoint{place} did not answer like a chat model ({type(error).__name__}): {said}"
    return ModelUnavailable(
        msg, remedy="check OPENAI_BASE_URL: it must be an OpenAI-compatible API, often .../v1"
    )


def excerpt(text: str, most: int = 300) -> str:
    """Return one short line of `text`, markup of an HTML page left out."""
    if re.search(r"<\s*(html|!doctype|head|body)\b", text, re.IGNORECASE):
        text = "an HTML page: " + re.sub(r"(?s)<(script|style).*?</\1>|<[^>]*>", " ", text)
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= most else line[: most - 3] + "..."


def _said(error: BaseException) -> str:
    """Return all that the provider said: message, code, and the body where it is no JSON (an HTML page)."""
    said = str(getattr(error, "message", None) or error)
    code = getattr(error, "code", None)
    if isinstance(code, str) and code not in said:
        said += f" ({code})"
    with contextlib.suppress(RuntimeError):  # a streamed body that was never read
        text = getattr(getattr(error, "response", None), "text", "")
        if isinstance(text, str) and text.lstrip().startswith("<"):
            said += f" {text[:4_000]}"
    return said


def _is_connection(error: BaseException) -> bool:
    return any(c.__name__.endswith(_CONNECTION) for c in type(error).__mro__)
