"""Runs on a GPU that go on while the CPU judges the small sizes in check mode."""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import TYPE_CHECKING

from cuda_harness.tools.execute.protocol import JobFault

if TYPE_CHECKING:
    from cuda_harness.tools.verify.cases import Asked

Key = tuple[str, int, bool, int | None, tuple[str, ...]]
"""Stage, poison, fresh process, multiprocessors, and the ids of the cases of one run."""
Turn = Callable[[], None]


class Ahead:
    """Runs one after the other: what a stage waits for first, then what was begun, in that order."""

    def __init__(self) -> None:
        self.over = threading.Event()
        """Set when nobody waits any more: it ends the run under way."""
        self._begun: dict[Key, Future[Asked]] = {}
        self._wanted: deque[Turn] = deque()
        self._later: deque[Turn] = deque()
        self._turns = threading.Condition()
        self._has_faulted = False
        self._thread: threading.Thread | None = None

    def begin(self, key: Key, run: "Callable[[], Asked]") -> None:
        """Run when those before it have ended; after a fault only what is asked for."""
        found: Future[Asked] = Future()

        def turn() -> None:
            if self._has_faulted:
                found.cancel()
            else:
                _settle(found, run)
                if not found.exception():
                    self._has_faulted = isinstance(found.result().done, JobFault)

        self._begun[key] = found
        self._queue(self._later, turn)

    def result(self, key: Key, run: "Callable[[], Asked]") -> "Asked":
        """Return what was begun under the key, else run it next; raises what the run raises."""
        begun = self._begun.pop(key, None)
        if begun is not None:
            try:
                return begun.result()
            except CancelledError:
                pass
        found: Future[Asked] = Future()
        self._queue(self._wanted, lambda: _settle(found, run))
        return found.result()

    def close(self) -> None:
        """End the run under way, forget the others and wait for it to end; idempotent."""
        with self._turns:
            self.over.set()
            self._turns.notify()
        if self._thread is not None:
            self._thread.join()

    def _queue(self, queue: deque[Turn], turn: Turn) -> None:
        with self._turns:
            queue.append(turn)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="ahead", daemon=True)
                self._thread.start()
            self._turns.notify()

    def _work(self) -> None:
        while True:
            with self._turns:
                self._turns.wait_for(lambda: self.over.is_set() or self._wanted or self._later)
                if self.over.is_set():
                    return
                turn = (self._wanted or self._later).popleft()
            turn()


def _settle(future: "Future[Asked]", run: "Callable[[], Asked]") -> None:
    """Give a future what a run returns or raises."""
    try:
        future.set_result(run())
    except BaseException as exc:  # noqa: BLE001 - whoever waits gets it
        future.set_exception(exc)
