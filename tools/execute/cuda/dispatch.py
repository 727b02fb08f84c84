"""One job to one child and back: the deadline, the lock, what was used, and whether the device is still trusted."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from cuda_harness.state.errors import ExecutorUnavailable
from cuda_harness.tools.execute.cuda.health import Health, probe_is_right
from cuda_harness.tools.execute.cuda.pool import NotStarted, Pool
from cuda_harness.tools.execute.cuda.worker import Frame, Request, Worker
from cuda_harness.tools.execute.protocol import JobFault, JobNotRun
from cuda_harness.tools.frames import Blob

LOCK_S = 300.0
"""Seconds a job waits for the GPU's lock before it says that another process holds it."""
NOT_WANTED = JobNotRun("environment", "nobody waits for it any more")
_PROBE_S = 30.0
_TRANSFER_BYTES_PER_S = 100e6
"""A low guess of a pipe's speed, for the time a job may take until it has arrived."""


class Dispatch:
    """Sends jobs to the children of a pool; safe to use from several threads."""

    def __init__(
        self, name: str, pool: Pool, *, probe: Callable[[], Request | None], cancel: threading.Event, lock_s: float = LOCK_S
    ) -> None:  # fmt: skip
        """Make a dispatcher.

        Args:
            name: The executor's, for messages.
            pool: The children.
            probe: Returns the job that runs a tiny kernel, `None` when there is none.
            cancel: Ends waiting at once.
            lock_s: Seconds a job waits for the GPU's lock.
        """
        self._name, self._pool, self._probe_job = name, pool, probe
        self._cancel, self._lock_s = cancel, lock_s
        self._health = Health()
        self._lock = threading.Lock()
        self.gpu_seconds = 0.0
        self.waited_s = 0.0

    def ask(
        self, header: dict[str, Any], blobs: Sequence[Blob], *, deadline_s: float, max_bytes: int, key: str | None,
        exclusive: bool | None, over: threading.Event | None = None,
    ) -> Frame | JobFault | JobNotRun:  # fmt: skip
        """Return a child's answer to one job; the arguments are those of `CudaExecutor.ask`."""
        alone = header["do"] not in {"run", "occupancy"} if exclusive is None else exclusive
        if over is not None and over.is_set():
            return NOT_WANTED
        refused = self._unhealthy()
        if refused is not None:
            return refused
        try:
            worker = self._pool.take_latest() if alone and key is None else self._pool.take(key, over)
        except NotStarted as exc:
            return self._not_started(exc, over)
        if alone:
            self._pool.hush()  # a context made meanwhile would disturb the clock
        elif key is not None:
            self._pool.prepare(1)  # for the process of its own that the candidate will ask for
        lock = {"exclusive": alone, "timeout_s": self._lock_s, "ours": self._pool.pids()}
        try:
            return self._converse(worker, {**header, "lock": lock}, blobs, deadline_s, max_bytes, key, over)
        finally:
            if key is None or not worker.is_alive:
                self._pool.prepare()  # for the next candidate: contexts made while this one runs would slow its runs

    def _converse(
        self, worker: Worker, header: dict[str, Any], blobs: Sequence[Blob], deadline_s: float, max_bytes: int, key: str | None,
        over: threading.Event | None,
    ) -> Frame | JobFault | JobNotRun:  # fmt: skip
        """Send, await `started`, then the answer before the deadline; book what was used; keep or end the child."""
        patience = self._lock_s + 30.0 + sum(map(len, blobs)) / _TRANSFER_BYTES_PER_S
        began: float | None = None
        answer: Frame | None = None
        died = False
        try:
            worker.send(header, blobs)
            answer = worker.receive(time.monotonic() + patience, 1 << 20, self._cancel, over)
            if answer is not None and answer[0].get("status") == "started":
                began = time.monotonic()
                self._note(waited_s=float(answer[0]["waited_s"]))
                answer = worker.receive(began + deadline_s, max_bytes, self._cancel, over)
        except EOFError:
            answer, died = None, True
        if began is not None:
            told = answer[0].get("device_seconds") if answer is not None else None
            self._note(gpu_seconds=float(told) if told is not None else time.monotonic() - began)
        if answer is not None and _is_clean(answer[0]):
            self._pool.give(key, worker)
            return answer
        said = self._pool.drop(worker)
        if self._cancel.is_set() or self._pool.is_closed:
            return JobNotRun("environment", "the run was cancelled")
        unwanted = answer is None and not died and over is not None and over.is_set()
        if unwanted and began is None:
            return NOT_WANTED
        self._health.suspect()
        if unwanted:
            return NOT_WANTED
        if answer is not None:
            return _with_assertion(answer, said)
        if began is None:
            return JobNotRun(
                "environment", f"the GPU process took no job: {said.strip()[-300:] or 'no message'}"
            )
        if died:
            return JobFault(
                "crash",
                f"the GPU process died while the kernel ran: {said.strip()[-300:] or 'no message'}",
            )
        return JobFault(
            "timeout",
            f"the kernel ran longer than {round(deadline_s, 1):g} s and was stopped",
            {"seconds": deadline_s},
        )

    def _note(self, *, gpu_seconds: float = 0.0, waited_s: float = 0.0) -> None:
        with self._lock:
            self.gpu_seconds += gpu_seconds
            self.waited_s += waited_s

    def _not_started(self, exc: NotStarted, over: threading.Event | None) -> JobNotRun:
        """Return why no child came up; raises ExecutorUnavailable when none ever did."""
        if over is not None and over.is_set():
            return NOT_WANTED
        if self._cancel.is_set() or self._pool.is_closed:
            return JobNotRun("environment", "the run was cancelled")
        if not self._pool.has_started:
            raise ExecutorUnavailable(self._name, exc.reason, remedy=exc.remedy) from exc
        self._health.failed(exc.reason)
        return JobNotRun("environment", f"{self._name}: {exc.reason}", exc.remedy)

    def _unhealthy(self) -> JobNotRun | None:
        """Probe the device with a tiny kernel in a new child when the last job was ended by force or by a fault."""
        while self._health.must_probe and not self._cancel.is_set():
            with self._health.probing:
                if self._health.must_probe:
                    self._probe()
        if self._health.quarantined is None:
            return None
        message = (
            f"{self._name} is left alone: it did not run a tiny kernel twice after a fault "
            f"({self._health.quarantined})"
        )
        return JobNotRun(
            "environment", message, "look at nvidia-smi and the system's log; use another device, or restart"
        )

    def _probe(self) -> None:
        job = self._probe_job()
        if job is None:
            self._health.passed()
            return
        header, blobs = job
        try:
            worker = self._pool.take(None)
        except NotStarted as exc:
            self._health.failed(exc.reason)
            return
        answer: Frame | None = None
        try:
            worker.send(
                {**header, "lock": {"exclusive": False, "timeout_s": self._lock_s, "ours": []}}, blobs
            )
            answer = worker.receive(time.monotonic() + self._lock_s + _PROBE_S, 1 << 20, self._cancel)
            if answer is not None and answer[0].get("status") == "started":
                answer = worker.receive(time.monotonic() + _PROBE_S, 1 << 20, self._cancel)
        except EOFError:
            answer = None
        held_by_others = answer is not None and answer[0].get("reason") == "resources"
        if answer is not None and (held_by_others or probe_is_right(answer)):
            self._health.passed()
            self._pool.give_spare(worker)
            return
        said = self._pool.drop(worker)
        told = answer[0].get("message") if answer is not None else None
        self._health.failed(str(told or said.strip()[-200:] or "no answer"))


def _is_clean(header: dict[str, Any]) -> bool:
    """Return whether the child's context is beyond doubt after this answer."""
    return header["status"] == "ok" or header.get("reason") == "resources"


def _with_assertion(answer: Frame, said: str) -> Frame | JobFault:
    """Add the first failed device assertion that the driver printed to a crash."""
    header = answer[0]
    line = next((x.strip() for x in said.splitlines() if "Assertion" in x), None)
    if header["status"] != "fault" or header.get("fault") != "crash" or line is None:
        return answer
    evidence = {**header.get("evidence", {}), "assertion": line[:300]}
    return JobFault("crash", f"{header['message']}: {line[:300]}", evidence)
