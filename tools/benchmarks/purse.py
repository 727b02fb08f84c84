"""The budget of a whole suite."""

import threading
import time
from collections.abc import Mapping
from typing import Any

from cuda_harness.state.budget import Budget
from cuda_harness.tools.benchmarks.results import Row


class Purse:
    """The budget of the whole suite, shared by runs that go on at the same time."""

    def __init__(self, limits: Mapping[str, float], each: Budget) -> None:
        self._left = dict(limits)
        self._each = each
        self._ends = time.monotonic() + limits["max_seconds"] if "max_seconds" in limits else None
        self._lock = threading.Lock()

    def draw(self, parts: int) -> Budget | None:
        """Return a run's budget, set aside until `settle`; `None` when something is spent. `parts` runs share it."""
        with self._lock:
            change: dict[str, Any] = {}
            for name, left in self._left.items():
                if name == "max_seconds":
                    left = (self._ends or 0) - time.monotonic()  # noqa: PLW2901 - time is not set aside
                if left <= 0:
                    return None
                share = left if name == "max_seconds" else left / max(1, parts)
                own = getattr(self._each, name)
                amount = share if own is None else min(float(own), share)
                change[name] = max(1, int(amount)) if name in {"max_calls", "max_tokens"} else amount
                if name != "max_seconds":
                    self._left[name] = left - change[name]
            return self._each.model_copy(update=change)

    def settle(self, drawn: Budget, row: Row) -> None:
        """Give back what a run did not spend; what is not known counts as spent."""
        tokens = None if row["input_tokens"] is None else row["input_tokens"] + (row["output_tokens"] or 0)
        spent = {
            "max_calls": row["calls"],
            "max_tokens": tokens,
            "max_usd": row["usd"],
            "max_gpu_seconds": row["gpu_seconds"],
        }
        with self._lock:
            for name in self._left.keys() & spent.keys():
                if spent[name] is not None:
                    self._left[name] += float(getattr(drawn, name)) - float(spent[name])
