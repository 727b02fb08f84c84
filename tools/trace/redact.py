"""Keys and configured patterns never reach a log or a trace, and no value is larger than its cap."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

MAX_TEXT = 20_000
"""Characters of one text value; head and tail are kept."""
MAX_ITEMS = 200
"""Entries of one list or mapping."""
MAX_NESTING = 12
MASK = "[redacted]"

_KEY_NAMES = re.compile(
    r"(api[_-]?key|authorization|secret|password|passwd|token|credential)s?$", re.IGNORECASE
)
_COUNTS = re.compile(r"(input|output|total|max|prompt|completion|reasoning|cached)_?tokens?$", re.IGNORECASE)
_SECRETS = (
    re.compile(r"\b(?:sk|pk|rk|lsv2|hf|ghp|gho|github_pat|xox[abp]|glpat|nvapi)[-_][A-Za-z0-9_\-]{12,}"),
    re.compile(r"\bAKIA[0-9A-Z]{16}\b"),
    re.compile(r"\bAIza[0-9A-Za-z_\-]{30,}"),
    re.compile(r"\beyJ[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]{10,}\.[A-Za-z0-9_\-]+"),
    re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=\-]{12,}"),
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
)


class Redactor:
    """Masks secrets in text and in nested values."""

    def __init__(self, patterns: Iterable[str] = (), *, secrets: Iterable[str] = ()) -> None:
        self._patterns = (*_SECRETS, *(re.compile(p) for p in patterns))
        self._secrets = tuple(s for s in secrets if len(s) >= 4)

    def text(self, value: str) -> str:
        """Return `value` without secrets, cut to the cap with head and tail kept."""
        if len(value) > 4 * MAX_TEXT:  # bound the work before any pattern runs
            value = cut(value, 4 * MAX_TEXT)
        for secret in self._secrets:
            value = value.replace(secret, MASK)
        for pattern in self._patterns:
            value = pattern.sub(MASK, value)
        return cut(value, MAX_TEXT)

    def value(self, value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - any value a run may carry
        """Return a JSON value equal to `value` but bounded, masked and free of foreign types."""
        if value is None or isinstance(value, (bool, int, float)):
            return value
        if isinstance(value, str):
            return self.text(value)
        if depth >= MAX_NESTING:
            return f"[{type(value).__name__} below {MAX_NESTING} levels]"
        if hasattr(value, "model_dump"):
            try:
                value = value.model_dump(mode="json", by_alias=True)
            except (TypeError, ValueError):
                return self.text(repr(value))
        if isinstance(value, Mapping):
            items = list(value.items())[:MAX_ITEMS]
            return {
                self.text(str(k)): MASK if self._is_secret_name(str(k)) and v else self.value(v, depth + 1)
                for k, v in items
            }
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self.value(v, depth + 1) for v in list(value)[:MAX_ITEMS]]
        if isinstance(value, (bytes, bytearray)):
            return f"[{len(value)} bytes]"
        return self.text(str(value))

    @staticmethod
    def _is_secret_name(name: str) -> bool:
        return bool(_KEY_NAMES.search(name)) and not _COUNTS.search(name)


def cut(text: str, limit: int) -> str:
    """Return `text` with its middle left out when it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    half = max(1, (limit - 40) // 2)
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
