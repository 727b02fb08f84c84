"""Runs on a GPU that go on while the CPU judges the small sizes in check mode."""

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from cuda_harness.tools.execute.protocol import JobFault

if TYPE_CHECKING:
    from cuda_harness.tools.verify.cases import Asked

Key = tuple[str, int, bool, int | None, tuple[str, ...]]
"""Stage, poison, fresh process, multiprocessors, and the ids of the cases of one run."""


class Ahead:
    """Runs one after the other, in the order in which they are begun; their stages take the results."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._runs: dict[Key, Future[Asked]] = {}
        self._has_faulted = False
        self.over = threading.Event()
        """Set when nobody waits any more: it ends the run under way."""

    def begin(self, key: Key, run: "Callable[[], Asked]") -> None:
        """Run when those before it have ended; after a fault only what is asked for."""

        def turn() -> "Asked":
            if self._has_faulted:
                raise CancelledError
            found = run()
            self._has_faulted = isinstance(found.done, JobFault)
            return found

        self._runs[key] = self._pool.submit(turn)

    def result(self, key: Key, run: "Callable[[], Asked]") -> "Asked":
        """Return what was begun under the key, else run it in its turn; raises what the run raises."""
        begun = self._runs.pop(key, None)
        if begun is not None:
            try:
                return begun.result()
            except CancelledError:
                pass
        return self._pool.submit(run).result()

    def close(self) -> None:
        """End the run under way and forget the others; idempotent."""
        self.over.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
