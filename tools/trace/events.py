"""`events.jsonl`: one structlog event a line, with the run's and the trace's ids; by setting on stderr as well."""

import contextlib
import json
import os
import sys
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

import structlog

from cuda_harness.state.settings import Settings
from cuda_harness.tools.trace.redact import Redactor


class _LineWriter:
    """Appends whole lines in one write, so that parallel writers never mix (O_APPEND)."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def msg(self, line: str) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, line.encode("utf-8", "backslashreplace") + b"\n")
        finally:
            os.close(descriptor)

    log = debug = info = warning = error = critical = msg


def _trace_ids(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    from langsmith.run_helpers import get_current_run_tree

    tree = get_current_run_tree()
    if tree is not None:
        event["trace_id"] = str(tree.trace_id)
        event["trace_run_id"] = str(tree.id)
    return event


def redactor(settings: Settings) -> Redactor:
    """Return the redactor of a run: built-in patterns, the user's, and the provider's key itself."""
    key = settings.provider.api_key
    return Redactor(settings.redact, secrets=[key.get_secret_value()] if key is not None else [])


def log_event(run_dir: Path, event: str, fields: Mapping[str, Any], *, settings: Settings) -> None:
    """Append one event to the run's `events.jsonl`; bounded and redacted.

    A disk that is full or a folder that is gone loses the event, never the run.
    """
    clean = redactor(settings)

    def redact(_logger: object, _method: str, found: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        kept: MutableMapping[str, Any] = clean.value(dict(found))
        _also_on_stderr(settings.log, kept)
        return kept

    logger = structlog.wrap_logger(
        _LineWriter(run_dir / "events.jsonl"),
        processors=[
            structlog.contextvars.merge_contextvars,
            _trace_ids,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            redact,
            structlog.processors.JSONRenderer(ensure_ascii=False),
        ],
    )
    try:
        logger.info(event, **fields)
    except OSError:
        return


def _also_on_stderr(form: str, event: Mapping[str, Any]) -> None:
    """Show an event on stderr; a closed stream loses the line, never the run."""
    if form == "file":
        return
    if form == "json":
        line = json.dumps(event, ensure_ascii=False)
    else:
        shown = {k: "".join(c if c.isprintable() else "?" for c in str(v)) for k, v in event.items()}
        line = str(structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())(None, "info", shown))
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(line + "\n")
