"""Live progress: one updating line on a terminal, plain lines elsewhere; always on stderr."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.text import Text

_QUIET = frozenset({"model_called", "stage_started"})
"""Events that only move the live line."""


class Progress:
    """A listener of run events that shows them."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._start = time.monotonic()

    def __call__(self, event: str, fields: Mapping[str, Any]) -> None:
        """Show one event; a closed terminal never disturbs the run."""
        with contextlib.suppress(OSError, ValueError):
            self._show(event, fields)

    @contextlib.contextmanager
    def live(self) -> Iterator["Progress"]:
        """Keep the updating line alive inside the block."""
        if not self._console.is_terminal:
            yield self
            return
        with self._console.status("starting") as status:
            self._status = status
            try:
                yield self
            finally:
                self._status = None

    def _show(self, event: str, fields: Mapping[str, Any]) -> None:
        text = describe_event(event, fields)
        if self._status is not None:
            self._status.update(Text(text))
            if event in _QUIET:
                return
        if event in _QUIET:
            return
        elapsed = time.monotonic() - self._start
        self._console.print(Text(f"{elapsed:7.1f} s  ", style="dim").append(text))


def describe_event(event: str, fields: Mapping[str, Any]) -> str:
    """Return one plain line for an event: its name in words and its short fields."""
    words = event.replace("_", " ")
    parts = []
    for name, value in fields.items():
        if name in {"run_id", "run_dir"} or value is None or isinstance(value, (dict, list)):
            continue
        text = f"{value:.2f}" if isinstance(value, float) else str(value)
        text = " ".join(text.split())
        parts.append(f"{name}={text[:100]}")
    return f"{words}  {'  '.join(parts)}".rstrip()
