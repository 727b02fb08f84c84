"""`trace.jsonl` in LangSmith's run schema, written locally first; the same runs go to LangSmith when it is set up.

A LangSmith `Client` whose transport is a file (facts: subclassing `create_run`/`update_run` catches graph,
node, model and `@traceable` tool runs with the exact payload).
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from langsmith import Client

from cuda_harness.tools.trace.redact import Redactor

FIELDS = (
    "id", "trace_id", "parent_run_id", "dotted_order", "run_type", "name", "inputs", "outputs", "error",
    "start_time", "end_time", "extra", "tags", "session_name", "events",
)  # fmt: skip
"""Keys of one line, LangSmith's names."""


class TraceRecorder(Client):
    """Writes each finished run as one line of `trace.jsonl`; open runs wait in `trace.open.jsonl`.

    `forward`, when given, gets the same calls; its failures are counted, never raised.
    """

    def __init__(self, run_dir: Path, *, redactor: Redactor, forward: Client | None = None) -> None:
        # The address is never used: every call that would leave is overridden below.
        super().__init__(api_url="http://127.0.0.1:9", api_key="local", auto_batch_tracing=False, info={})
        self._finished = run_dir / "trace.jsonl"
        self._open = run_dir / "trace.open.jsonl"
        self._redactor = redactor
        self._forward = forward
        self._runs: dict[str, dict[str, Any]] = {}
        self._write_lock = threading.Lock()
        self.forward_failures = 0
        close_interrupted(run_dir)

    def create_run(self, name: str, inputs: dict[str, Any], run_type: Any, **kwargs: Any) -> None:  # noqa: ANN401
        """Note the start of a run."""
        if kwargs.get("id") is None:
            return
        run = self._clean({"name": name, "inputs": inputs, "run_type": run_type, **kwargs})
        with self._write_lock:
            self._runs[run["id"]] = run
            self._append(self._open, run)
        self._send(lambda c: c.create_run(name, inputs, run_type, **kwargs))

    def update_run(self, run_id: Any, **kwargs: Any) -> None:  # noqa: ANN401 - LangSmith's own signature
        """Note the end of a run and write its line."""
        change = self._clean({"id": run_id, **kwargs})
        with self._write_lock:
            started = self._runs.pop(change["id"], {})
            merged = {**started, **{k: v for k, v in change.items() if v not in (None, {}, [])}}
            if merged.get("end_time") is None:
                self._runs[change["id"]] = merged
            else:
                self._append(self._finished, {k: merged.get(k) for k in FIELDS})
        self._send(lambda c: c.update_run(run_id, **kwargs))

    def finish(self) -> None:
        """Flush the forwarded copy and forget runs that ended."""
        if self._forward is not None:
            with contextlib.suppress(Exception):
                self._forward.flush()

    def _clean(self, run: dict[str, Any]) -> dict[str, Any]:
        kept = {k: v for k, v in run.items() if k in FIELDS and v is not None}
        for key in ("id", "trace_id", "parent_run_id"):
            if key in kept:
                kept[key] = str(kept[key])
        for key in ("start_time", "end_time"):
            if isinstance(kept.get(key), datetime):
                kept[key] = kept[key].isoformat()
        for key in ("inputs", "outputs", "error", "extra", "events", "tags"):
            if key in kept:
                kept[key] = self._redactor.value(kept[key])
        return kept

    @staticmethod
    def _append(path: Path, run: dict[str, Any]) -> None:
        with (
            contextlib.suppress(OSError),
            path.open("a", encoding="utf-8", errors="backslashreplace") as stream,
        ):
            stream.write(json.dumps(run, ensure_ascii=False, default=str) + "\n")

    def _send(self, call: Callable[[Client], None]) -> None:
        if self._forward is None:
            return
        try:
            call(self._forward)
        except Exception:  # noqa: BLE001 - an upload must never touch the run, whatever it raises
            self.forward_failures += 1


def read_trace(run_dir: Path) -> list[dict[str, Any]]:
    """Return the finished runs of `trace.jsonl` in tree order (`dotted_order`); broken lines are left out."""
    runs = list(_lines(run_dir / "trace.jsonl"))
    return sorted(runs, key=lambda r: str(r.get("dotted_order") or ""))


def close_interrupted(run_dir: Path) -> int:
    """Write a line for each run that a kill cut off, with error `interrupted`; return how many."""
    opened = run_dir / "trace.open.jsonl"
    if not opened.exists():
        return 0
    done = {r.get("id") for r in _lines(run_dir / "trace.jsonl")}
    started = list(_lines(opened))
    cut_off = [r for r in started if r.get("id") not in done]
    last = max((str(r.get("start_time") or "") for r in started), default="") or datetime.now(UTC).isoformat()
    for run in cut_off:
        closed = {k: run.get(k) for k in FIELDS}
        closed.update(error="interrupted: the process ended before this run did", end_time=last)
        TraceRecorder._append(run_dir / "trace.jsonl", closed)  # noqa: SLF001 - same module
    opened.unlink()
    return len(cut_off)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    try:
        stream = path.open(encoding="utf-8", errors="replace")
    except OSError:
        return
    with stream:
        for line in stream:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value
