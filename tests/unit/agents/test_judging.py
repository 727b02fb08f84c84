"""Branches judge side by side, as many as there are cores."""

import os
import threading
import time
from typing import Any

import pytest

from cuda_harness.agents.judging import clock_of, turn


class Shared:
    """What `turn` needs of the services."""

    def __init__(self) -> None:
        self.cancelled = threading.Event()
        self.executor = object()
        self._made: dict[str, Any] = {}
        self._lock = threading.Lock()

    def _once(self, name: str, make: Any) -> Any:
        with self._lock:
            return self._made.setdefault(name, make())


def test_no_more_judge_at_once_than_there_are_cores() -> None:
    shared, inside, most = Shared(), [0], [0]
    lock = threading.Lock()

    def work() -> None:
        with turn(shared):  # type: ignore[arg-type]
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            time.sleep(0.02)
            with lock:
                inside[0] -= 1

    cores = len(os.sched_getaffinity(0))
    threads = [threading.Thread(target=work) for _ in range(3 * cores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= most[0] <= cores
    assert inside[0] == 0


def test_a_cancelled_run_does_not_wait_for_its_turn() -> None:
    shared = Shared()
    shared._once("places", lambda: threading.BoundedSemaphore(1)).acquire()
    shared.cancelled.set()
    with pytest.raises(KeyboardInterrupt), turn(shared):  # type: ignore[arg-type]
        pytest.fail("it got a turn")


def test_an_executor_without_a_clock_times_nothing() -> None:
    assert clock_of(Shared()) is None  # type: ignore[arg-type]
