"""The budget of a whole suite."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from cuda_harness.state.budget import Budget
from cuda_harness.tools.benchmarks.results import Row

SECONDS = "max_seconds"
_WHOLE = frozenset({"max_calls", "max_tokens"})


class Purse:
    """The budget of the whole suite, shared by runs that go on at the same time.

    What earlier calls of the suite spent counts, as in a resumed run; only the wall seconds are those of this call.
    """

    def __init__(self, limits: Mapping[str, float], each: Budget, *, spent: Sequence[Row] = ()) -> None:
        """Set the limits of the suite.

        Args:
            limits: Names and values of `Budget`.
            each: What a run may have by itself.
            spent: Results of earlier calls.
        """
        self._left = {
            name: limit - sum(_spent(row).get(name) or 0.0 for row in spent) for name, limit in limits.items()
        }
        self._each = each
        self._ends = time.monotonic() + limits[SECONDS] if SECONDS in limits else None
        self._lock = threading.Lock()

    def draw(self, parts: int, *, before: Row | None = None) -> Budget | None:
        """Return a run's budget, set aside until `settle`; `None` when something is spent.

        Args:
            parts: Runs that share what is left.
            before: What an earlier call spent on this run: a run's limits count all of it.
        """
        earlier = _spent(before) if before is not None else {}
        with self._lock:
            change: dict[str, Any] = {}
            aside: dict[str, float] = {}
            for name, left in self._left.items():
                if name == SECONDS:
                    left = (self._ends or 0) - time.monotonic()  # noqa: PLW2901 - time is not set aside
                if left <= 0:
                    return None
                had = earlier.get(name) or 0.0
                total = had + (left if name == SECONDS else left / max(1, parts))
                own = getattr(self._each, name)
                total = total if own is None else min(float(own), total)
                change[name] = max(1, int(total)) if name in _WHOLE else total
                aside[name] = max(0.0, change[name] - had)
            for name, amount in aside.items():
                if name != SECONDS:
                    self._left[name] -= amount
            return self._each.model_copy(update=change)

    def settle(self, drawn: Budget, row: Row, *, before: Row | None = None) -> None:
        """Give back what a run did not spend; what is not known counts as spent. A row counts its whole run."""
        spent, earlier = _spent(row), _spent(before) if before is not None else {}
        with self._lock:
            for name in self._left.keys() & spent.keys():
                if (used := spent[name]) is not None:
                    self._left[name] += max(
                        0.0, float(getattr(drawn, name)) - max(used, earlier.get(name) or 0.0)
                    )


def _spent(row: Row) -> dict[str, float | None]:
    """Return what a result spent, by the name of the limit; `None` is not known."""
    tokens = None if row["input_tokens"] is None else row["input_tokens"] + (row["output_tokens"] or 0)
    return {
        "max_calls": row["calls"],
        "max_tokens": tokens,
        "max_usd": row["usd"],
        "max_gpu_seconds": row["gpu_seconds"],
    }
