"""Waiting for a run so that Ctrl-C, or a notebook's stop button, ends it within two seconds."""

import contextvars
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
GRACE_S = 1.5
"""Seconds that an interrupted run gets to end in order; its children are killed at once."""


def interruptible(work: Callable[[], T], cancelled: threading.Event, *, grace_s: float = GRACE_S) -> T:
    """Return what `work` returns; on KeyboardInterrupt set `cancelled`, wait a little, and raise it again.

    An interrupt reaches the main thread only, and there it would wait for every branch that LangGraph runs beside
    it. So `work` runs in a thread of its own, and what it started ends by `cancelled`. A model call that cannot be
    cut short is left behind: its reply still lands in the run's journal, so that `resume` need not pay for it again.

    Outside the main thread nothing can be interrupted, and `work` runs as it is.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    found: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            found.append(context.run(work))
        except BaseException as exc:  # noqa: BLE001 - it is raised again by the thread that waits
            failed.append(exc)

    context = contextvars.copy_context()
    worker = threading.Thread(target=run, name="cuda-harness-run", daemon=True)
    worker.start()
    try:
        while worker.is_alive():
            worker.join(0.2)
    except KeyboardInterrupt:
        cancelled.set()
        end = time.monotonic() + grace_s
        while worker.is_alive() and time.monotonic() < end:
            worker.join(0.05)
        raise
    if failed:
        raise failed[0]
    return found[0]
