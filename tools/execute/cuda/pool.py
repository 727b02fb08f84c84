"""GPU children kept ready: warm spares, and the children of candidates that still have jobs to run."""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from cuda_harness.tools.execute.cuda.worker import Command, Worker

START_S = 60.0
"""Seconds that imports and a context may take."""
SPARES = 2 if (os.cpu_count() or 1) >= 4 else 1
"""Fresh children that wait: one for the next candidate, one for the process of its own that its last stage asks for."""
_KEPT = 3
"""Candidates whose children are kept between their jobs; each holds a context of some hundred MiB."""


class NotStarted(Exception):  # noqa: N818 - becomes ExecutorUnavailable or a JobNotRun
    """A child did not come up: why, and what to do."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


class Pool:
    """Hands out children; safe to use from several threads."""

    def __init__(
        self, command: Command, *, environment: Mapping[str, str] | None = None, cancel: threading.Event | None = None,
        start_s: float = START_S, spares: int = SPARES,
    ) -> None:  # fmt: skip
        self._make: Callable[[], Worker] = lambda: Worker(command, environment)
        self._cancel = cancel or threading.Event()
        self._start_s, self._wanted = start_s, spares
        self._lock = threading.Lock()
        self._spares: list[Worker] = []
        self._kept: OrderedDict[str, Worker] = OrderedDict()
        self._busy: set[Worker] = set()
        self._closed = False
        self.has_started = False
        """Whether any child ever came up: CUDA works here."""

    def take(self, key: str | None, over: threading.Event | None = None) -> Worker:
        """Return the child that served `key` before, else a fresh one; the caller gives it back or drops it.

        Args:
            key: Candidate; `None`: a process that served nobody.
            over: When set nobody waits any more.

        Raises:
            NotStarted: If CUDA does not start, or nobody wants it to.
        """
        with self._lock:
            if self._closed:
                reason = "the executor is closed"
                raise NotStarted(reason, "")
            worker = self._kept.pop(key, None) if key is not None else None
            if worker is not None and not worker.is_alive:
                worker.kill()
                worker = None
            if worker is None:
                worker = self._spares.pop(0) if self._spares else self._make()
            self._busy.add(worker)
        try:
            self._await_ready(worker, over)
        except NotStarted:
            if over is not None and over.is_set() and worker.is_alive:
                self.give_spare(worker)  # it is still starting, and will serve another
            else:
                self.drop(worker)
            raise
        return worker

    def take_latest(self) -> Worker:
        """Return the child that served last, else a fresh one; the caller drops it afterwards.

        For timing, which follows the checks of the candidate that it times: no context has to be made for it.

        Raises:
            NotStarted: If CUDA does not start.
        """
        with self._lock:
            latest = next(reversed(self._kept), None)
        return self.take(latest)

    def give(self, key: str | None, worker: Worker) -> None:
        """Keep a healthy child for the next job of its candidate."""
        surplus: list[Worker] = []
        with self._lock:
            self._busy.discard(worker)
            if key is None or self._closed or key in self._kept:
                surplus.append(worker)
            else:
                self._kept[key] = worker
                while len(self._kept) > _KEPT:
                    surplus.append(self._kept.popitem(last=False)[1])
        for old in surplus:
            old.kill()

    def give_spare(self, worker: Worker) -> None:
        """Put back a child that served no candidate."""
        with self._lock:
            self._busy.discard(worker)
            if len(self._spares) < self._wanted and not self._closed:
                self._spares.insert(0, worker)
                return
        worker.kill()

    def drop(self, worker: Worker) -> str:
        """End a child and return its stderr."""
        with self._lock:
            self._busy.discard(worker)
        return worker.kill()

    def trim(self) -> bool:
        """End the children that wait, so that their contexts give memory back; returns whether there were any."""
        with self._lock:
            idle = [*self._kept.values(), *self._spares]
            self._kept.clear()
            self._spares.clear()
        for worker in idle:
            worker.kill()
        return bool(idle)

    def prepare(self, most: int | None = None) -> None:
        """Start spares until as many wait as are wanted, or `most`; returns at once."""
        wanted = self._wanted if most is None else min(most, self._wanted)
        with self._lock:
            while len(self._spares) < wanted and not self._closed and not self._cancel.is_set():
                self._spares.append(self._make())

    def hush(self) -> None:
        """End spares that have no context yet: making it would disturb a timing, and waiting for it would delay one."""
        with self._lock:
            under_way = [w for w in self._spares if not w.is_up]
            self._spares = [w for w in self._spares if w not in under_way]
        for worker in under_way:
            worker.kill()

    def _await_ready(self, worker: Worker, over: threading.Event | None = None) -> None:
        with worker.starting:
            if worker.ready is not None:
                return
            try:
                first = worker.receive(time.monotonic() + self._start_s, 1 << 20, self._cancel, over)
            except EOFError:
                first = None
            if first is not None and first[0].get("status") == "ready":
                worker.ready = first[0]["device"]
                self.has_started = True
                return
        if self._cancel.is_set() or (over is not None and over.is_set()):
            reason = "the run was cancelled"
            raise NotStarted(reason, "")
        told: dict[str, Any] = first[0] if first else {}
        said = worker.kill().strip()[
            -300:
        ]  # all of it: the end of the channel may be seen before its last words
        reason = str(
            told.get("message") or said or f"the GPU process did not start within {self._start_s:.0f} s"
        )
        raise NotStarted(
            reason, str(told.get("remedy") or "see `cuda-harness doctor`, or use --executor cpu")
        )

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called: a child that dies then is nobody's fault."""
        return self._closed

    def pids(self) -> list[int]:
        """Return the process ids of all living children."""
        with self._lock:
            all_ = [*self._kept.values(), *self._busy, *self._spares]
        return [w.pid for w in all_]

    def close(self) -> None:
        """End all children; idempotent."""
        with self._lock:
            self._closed = True
            every = [*self._kept.values(), *self._busy, *self._spares]
            self._kept.clear()
            self._busy.clear()
            self._spares.clear()
        for worker in every:
            worker.kill()
