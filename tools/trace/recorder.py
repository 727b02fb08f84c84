"""`trace.jsonl` in LangSmith's run schema, written locally first; the same runs go to LangSmith when it is set up.

A LangSmith `Client` whose transport is a file: it is handed to a tracer, and gets every graph, node, model and tool
run with the payload that LangSmith would get. One recorder serves any number of runs at once and keeps them apart
by the root of each.
"""

import contextlib
import json
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from langsmith import Client

from cuda_harness.tools.trace.labels import labels
from cuda_harness.tools.trace.redact import Redactor

FIELDS = (
    "id", "trace_id", "parent_run_id", "dotted_order", "run_type", "name", "inputs", "outputs", "error",
    "start_time", "end_time", "extra", "tags", "session_name", "events",
)  # fmt: skip
"""Keys of one line, LangSmith's names."""
_TEXTS = ("inputs", "outputs", "error", "extra", "events", "tags")
"""Keys whose values come from outside: bounded and redacted, locally and before any upload."""
_MOST_WAITING = 256
"""Calls that are kept until a run's folder is known; a run opens its folder in its first node."""
FLUSH_S = 5.0
"""Seconds that the end of a run waits for its upload."""


@dataclass
class _Root:
    """One traced run: where its lines go, and what waits until that is known."""

    folder: Path | None = None
    redactor: Redactor = field(default_factory=Redactor)
    forward: Client | None = None
    open: dict[str, dict[str, Any]] = field(default_factory=dict)
    waiting: list[Callable[[], None]] = field(default_factory=list)


class TraceRecorder(Client):
    """Writes each finished run as one line of its folder's `trace.jsonl`; open runs wait in `trace.open.jsonl`.

    `run_dir` is the folder of every root that is not bound to another; without one, a root waits for `bind`.
    `forward`, when given, gets the same calls; its failures are counted, never raised.
    """

    def __init__(
        self, run_dir: Path | None = None, *, redactor: Redactor | None = None, forward: Client | None = None
    ) -> None:
        # The address is never used: every call that would leave is overridden below.
        super().__init__(api_url="http://127.0.0.1:9", api_key="local", auto_batch_tracing=False, info={})
        _release(super())  # its session is never used, and would be kept until the process ends
        self._default = run_dir
        self._redactor = redactor or Redactor()
        self._forward = forward
        self._roots: dict[str, _Root] = {}
        self._root_of: dict[str, str] = {}
        self._guard = threading.RLock()
        self.forward_failures = 0
        if run_dir is not None:
            close_interrupted(run_dir)

    def open_root(self, run_id: Any, *, forward: Client | None) -> None:  # noqa: ANN401 - a UUID or its text
        """Say before its first call that a run is a root, and who else gets its calls."""
        with self._guard:
            self._root(str(run_id)).forward = forward

    def bind(self, run_id: Any, run_dir: Path, redactor: Redactor) -> None:  # noqa: ANN401 - a UUID or its text
        """Name the folder of the root above `run_id`; what waited for it is written now. Idempotent."""
        with self._guard:
            root = self._roots.get(self._root_of.get(str(run_id), ""))
            if root is None or root.folder is not None:
                return
            close_interrupted(run_dir)
            root.folder, root.redactor = run_dir, redactor
            waiting, root.waiting = root.waiting, []
            for call in waiting:
                call()

    def knows(self, run_id: Any) -> bool:  # noqa: ANN401 - a UUID or its text
        """Return whether `run_id` is a run of this recorder that has not ended."""
        return str(run_id) in self._root_of

    @property
    def open_roots(self) -> int:
        """Runs that have not ended."""
        return len(self._roots)

    def create_run(self, name: str, inputs: dict[str, Any], run_type: Any, **kwargs: Any) -> None:  # noqa: ANN401
        """Note the start of a run; one that comes with its end is written at once."""
        if kwargs.get("id") is None:
            return
        run_id, parent = str(kwargs["id"]), str(kwargs.get("parent_run_id"))
        with self._guard:
            key = self._root_of.setdefault(run_id, self._root_of.get(parent, run_id))
            root = self._root(key)
            self._when_bound(
                root,
                lambda: self._started(root, {"name": name, "inputs": inputs, "run_type": run_type, **kwargs}),
            )
            over = self._ended(run_id, key) if kwargs.get("end_time") is not None else None
        _flush(over)
        _release(over)

    def update_run(self, run_id: Any, **kwargs: Any) -> None:  # noqa: ANN401 - LangSmith's own signature
        """Note the end of a run and write its line."""
        name = str(run_id)
        with self._guard:
            key = self._root_of.get(name)
            if key is None:
                return
            root = self._root(key)
            self._when_bound(root, lambda: self._changed(root, name, kwargs))
            over = self._ended(name, key) if kwargs.get("end_time") is not None else None
        _flush(over)
        _release(over)

    def finish(self) -> None:
        """Wait a little for what is still being uploaded."""
        for client in {
            id(c): c for c in (self._forward, *(r.forward for r in self._roots.values())) if c
        }.values():
            _flush(client)

    def _root(self, key: str) -> _Root:
        if key not in self._roots:
            self._root_of[key] = key
            self._roots[key] = _Root(self._default, self._redactor, self._forward)
        return self._roots[key]

    @staticmethod
    def _when_bound(root: _Root, call: Callable[[], None]) -> None:
        if root.folder is not None:
            call()
        elif len(root.waiting) < _MOST_WAITING:
            root.waiting.append(call)

    def _ended(self, run_id: str, key: str) -> Client | None:
        """Forget an ended run, and with its root everything below it; return whom the root's end waits for."""
        if run_id != key:
            self._root_of.pop(run_id, None)
            return None
        root = self._roots.pop(key)
        self._root_of = {run: top for run, top in self._root_of.items() if top != key}
        if root.folder is not None and not root.open:
            with contextlib.suppress(OSError):
                (root.folder / "trace.open.jsonl").unlink()
        return root.forward if root.forward is not self._forward else None

    def _started(self, root: _Root, kwargs: dict[str, Any]) -> None:
        run = _clean(kwargs, root.redactor)
        if run.get("end_time") is not None:
            _label(run)
            _append(root, "trace.jsonl", {k: run.get(k) for k in FIELDS})
        else:
            root.open[run["id"]] = run
            _append(root, "trace.open.jsonl", run)
        sent = {**kwargs, **{k: run[k] for k in _TEXTS if kwargs.get(k) is not None}}
        self._send(root, lambda c: c.create_run(**sent))

    def _changed(self, root: _Root, run_id: str, kwargs: dict[str, Any]) -> None:
        change = _clean({"id": run_id, **kwargs}, root.redactor)
        merged = {**root.open.pop(run_id, {}), **{k: v for k, v in change.items() if v not in (None, {}, [])}}
        if merged.get("end_time") is None:
            root.open[run_id] = merged
        else:
            _label(merged)
            _append(root, "trace.jsonl", {k: merged.get(k) for k in FIELDS})
        sent = {**kwargs, **{k: change[k] for k in _TEXTS if kwargs.get(k) is not None}}
        sent.update({k: merged[k] for k in ("tags", "extra") if merged.get(k)})
        self._send(root, lambda c: c.update_run(run_id, **sent))

    def _send(self, root: _Root, call: Callable[[Client], None]) -> None:
        if root.forward is None:
            return
        try:
            call(root.forward)
        except Exception:  # noqa: BLE001 - an upload must never touch the run, whatever it raises
            self.forward_failures += 1


def _flush(client: Client | None) -> None:
    """Wait for the client's queue, but never longer than a run may be held up."""
    if client is None:
        return

    def wait() -> None:
        with contextlib.suppress(Exception):
            client.flush()

    worker = threading.Thread(target=wait, name="cuda-harness-upload", daemon=True)
    worker.start()
    worker.join(FLUSH_S)
    waiting: queue.Queue[Any] | None = getattr(client, "tracing_queue", None)
    if worker.is_alive() and waiting is not None:  # or the end of the process would wait for each of them
        with contextlib.suppress(queue.Empty):
            while True:
                waiting.get_nowait()
                waiting.task_done()


def _release(client: Any) -> None:  # noqa: ANN401 - a client, or its base class seen from within
    """Give back what a client holds until the end of the process; older versions of langsmith cannot."""
    close = getattr(client, "close", None)
    if close is not None:
        with contextlib.suppress(Exception):
            close(timeout=0)


def _clean(run: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    kept = {k: v for k, v in run.items() if k in FIELDS and v is not None}
    for key in ("id", "trace_id", "parent_run_id"):
        if key in kept:
            kept[key] = str(kept[key])
    for key in ("start_time", "end_time"):
        if isinstance(kept.get(key), datetime):
            kept[key] = kept[key].isoformat()
    for key in _TEXTS:
        if key in kept:
            kept[key] = redactor.value(kept[key])
    return kept


def _label(run: dict[str, Any]) -> None:
    tags, metadata = labels(run)
    if tags:
        run["tags"] = list(dict.fromkeys([*(run.get("tags") or []), *tags]))
    if metadata:
        extra = dict(run.get("extra") or {})
        run["extra"] = {**extra, "metadata": {**(extra.get("metadata") or {}), **metadata}}


def _append(root: _Root, name: str, run: dict[str, Any]) -> None:
    if root.folder is not None:
        _write_line(root.folder / name, run)


def _write_line(path: Path, run: dict[str, Any]) -> None:
    with contextlib.suppress(OSError), path.open("a", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write(json.dumps(run, ensure_ascii=False, default=str) + "\n")


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
        _write_line(run_dir / "trace.jsonl", closed)
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
