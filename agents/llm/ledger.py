"""Budget and spend: reserve before a call, settle after it, nothing counted twice.

The spend is derived from the journal of replies (`replies/*.json`), so a resumed run starts from what is on disk.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cuda_harness.state.budget import Budget, Price, Spend, Usage
from cuda_harness.state.errors import BudgetExhausted, ConfigError

if TYPE_CHECKING:
    from cuda_harness.tools.archive.run_folder import RunFolder

CHARS_PER_TOKEN = 3.0
"""A low guess for code and JSON, so that an estimate errs on the side of stopping."""
USUAL_OUTPUT_TOKENS = 4_000
FREE = Price(input_usd_per_million=0, output_usd_per_million=0)
FREE_MODELS = frozenset({"offline"})


@dataclass(frozen=True)
class Entry:
    """One finished call of the journal."""

    model: str
    usage: Usage
    prompt_chars: int
    reply_chars: int

    @property
    def input_tokens(self) -> int:
        """Reported input tokens, else an estimate."""
        known = self.usage.input_tokens
        return known if known is not None else _tokens(self.prompt_chars)

    @property
    def output_tokens(self) -> int:
        """Reported output tokens, else an estimate."""
        known = self.usage.output_tokens
        return known if known is not None else _tokens(self.reply_chars)

    @property
    def is_known(self) -> bool:
        """Whether the provider reported both counts."""
        return self.usage.input_tokens is not None and self.usage.output_tokens is not None


@dataclass(frozen=True, eq=False)
class Reservation:
    """What one call in flight may cost."""

    model: str
    prompt_chars: int
    input_tokens: int
    output_tokens: int


class Ledger:
    """Shared by all branches of a run; thread-safe."""

    def __init__(
        self,
        budget: Budget,
        *,
        folder: "RunFolder",
        prices: Mapping[str, Price] | None = None,
        clock: Callable[[], float] = time.monotonic,
        gpu_clock: Callable[[], float | None] = lambda: 0.0,
    ) -> None:
        self._budget = budget
        self._prices = dict(prices or {})
        self._clock = clock
        self._gpu_clock = gpu_clock
        self._lock = threading.Lock()
        self._in_flight: set[Reservation] = set()
        self._entries: dict[str, Entry] = {}
        self._earlier_s = self._earlier_gpu_s = self._gpu_s = 0.0
        for path in sorted((folder.root / "replies").glob("*.json")):
            self._read(path.name, folder)
        self._read_end(folder)
        self._start = clock()

    def _read(self, name: str, folder: "RunFolder") -> None:
        record = folder.read_json(f"replies/{name}")
        entry, elapsed = entry_of(record)
        self._entries[name] = entry
        self._earlier_s = max(self._earlier_s, elapsed)
        self._earlier_gpu_s = max(self._earlier_gpu_s, float(record.get("gpu_seconds") or 0.0))

    def _read_end(self, folder: "RunFolder") -> None:
        """Take the seconds of a session that came to its end: they go beyond its last reply."""
        if not folder.exists("result.json"):
            return
        usage = folder.read_json("result.json").get("usage") or {}
        self._earlier_s = max(self._earlier_s, float(usage.get("seconds") or 0.0))
        self._earlier_gpu_s = max(self._earlier_gpu_s, float(usage.get("gpu_seconds") or 0.0))

    @property
    def elapsed_s(self) -> float:
        """Wall seconds of the run: those of earlier sessions to their end, or their last reply where killed, and this one's."""
        return self._earlier_s + self._clock() - self._start

    def calls_left(self) -> int | None:
        """Return how many calls may still be reserved, `None` without a limit."""
        most = self._budget.max_calls
        with self._lock:
            return None if most is None else max(0, most - len(self._entries) - len(self._in_flight))

    @property
    def gpu_seconds(self) -> float | None:
        """Seconds that GPU processes of the run worked, earlier sessions counted up to their last reply; 0 on a CPU.

        `None` where an executor of the caller's own does not count them.
        """
        now = self._gpu_clock()
        if now is None:
            return None
        self._gpu_s = max(self._gpu_s, now)  # an executor that is closed is asked no more
        return self._earlier_gpu_s + self._gpu_s

    def seconds_left(self) -> float | None:
        """Return wall seconds until the limit (0 when passed), `None` without one."""
        most = self._budget.max_seconds
        return None if most is None else max(0.0, most - self.elapsed_s)

    def require_time(self) -> None:
        """Pass, or raise BudgetExhausted when wall or GPU seconds are spent: before a step that costs no call."""
        most = self._budget.max_seconds
        if most is not None and self.elapsed_s >= most:
            detail = f"{self.elapsed_s:.0f} of {most:.0f} seconds have passed"
            raise BudgetExhausted(limit="max_seconds", detail=detail)
        self._require_gpu_time()

    def _require_gpu_time(self) -> None:
        most = self._budget.max_gpu_seconds
        if most is None:
            return
        used = self.gpu_seconds
        if used is None:
            msg = "--max-gpu-seconds is set, but this executor does not count seconds on its GPU"
            raise ConfigError(msg, remedy="use --max-seconds, or give the executor a `gpu_seconds` property")
        if used >= most:
            detail = f"{used:.1f} of {most:.1f} seconds on the GPU are used"
            raise BudgetExhausted(limit="max_gpu_seconds", detail=detail)

    def reserve(self, *, model: str, prompt_chars: int, max_output_tokens: int | None = None) -> Reservation:
        """Return a reservation for the next call, or refuse it.

        The estimate uses the prompt's length, corrected by how this run's estimates compared with reports so far,
        and the largest output seen.

        Raises:
            BudgetExhausted: If the call would exceed a limit; nothing was spent.
            ConfigError: If money is limited and this model has no price.
        """
        with self._lock:
            ours = self._estimate(model, prompt_chars, max_output_tokens)
            self._check(ours)
            self._in_flight.add(ours)
            return ours

    def settle(self, reservation: Reservation, *, key: str, usage: Usage, reply_chars: int) -> None:
        """Book a finished call under its journal file; booking the same file again changes nothing."""
        with self._lock:
            self._in_flight.discard(reservation)
            self._entries[key] = Entry(reservation.model, usage, reservation.prompt_chars, reply_chars)

    def release(self, reservation: Reservation) -> None:
        """Give back the reservation of a call that failed."""
        with self._lock:
            self._in_flight.discard(reservation)

    def spend(self) -> Spend:
        """Return what the run has spent; token counts are `None` once a reply came without usage."""
        with self._lock:
            entries = list(self._entries.values())
        known = all(e.is_known for e in entries)
        priced = all(self._price(e.model) is not None for e in entries)
        return Spend(
            calls=len(entries),
            input_tokens=sum(e.input_tokens for e in entries) if known else None,
            output_tokens=sum(e.output_tokens for e in entries) if known else None,
            usd=self._usd(entries) if known and priced and (entries or self._prices) else None,
            seconds=round(self.elapsed_s, 3),
            gpu_seconds=round(gpu, 3) if (gpu := self.gpu_seconds) is not None else None,
        )

    def _price(self, model: str) -> Price | None:
        return self._prices.get(model, FREE if model in FREE_MODELS else None)

    def _usd(self, items: "list[Entry] | list[Reservation]") -> float:
        total = 0.0
        for item in items:
            price = self._price(item.model) or FREE
            total += item.input_tokens * price.input_usd_per_million
            total += item.output_tokens * price.output_usd_per_million
        return total / 1e6

    def _estimate(self, model: str, prompt_chars: int, max_output_tokens: int | None) -> Reservation:
        ratios = [e.input_tokens / max(1, _tokens(e.prompt_chars)) for e in self._entries.values()]
        expected_in = int(_tokens(prompt_chars) * max([1.0, *ratios]))
        largest = max((e.output_tokens for e in self._entries.values()), default=0)
        expected_out = max(largest, min(USUAL_OUTPUT_TOKENS, max_output_tokens or USUAL_OUTPUT_TOKENS))
        if model in FREE_MODELS:
            expected_in = expected_out = 0
        return Reservation(model, prompt_chars, expected_in, expected_out)

    def _check(self, ours: Reservation) -> None:
        budget, entries = self._budget, list(self._entries.values())
        pending = [*self._in_flight, ours]
        calls = len(entries) + len(pending)
        if budget.max_calls is not None and calls > budget.max_calls:
            raise BudgetExhausted(
                limit="max_calls", detail=f"{len(entries)} of {budget.max_calls} calls are made"
            )
        spent = sum(e.input_tokens + e.output_tokens for e in entries)
        expected = sum(r.input_tokens + r.output_tokens for r in pending)
        if budget.max_tokens is not None and spent + expected > budget.max_tokens:
            detail = f"{spent} of {budget.max_tokens} tokens are spent, the next call needs about {expected}"
            raise BudgetExhausted(limit="max_tokens", detail=detail)
        if budget.max_usd is not None:
            self._check_money(budget.max_usd, entries, pending)
        self.require_time()

    def _check_money(self, most: float, entries: list[Entry], pending: list[Reservation]) -> None:
        for model in sorted({e.model for e in entries} | {r.model for r in pending}):
            if self._price(model) is None:
                msg = f"--max-usd is set, but model {model!r} has no price: money could not be counted"
                raise ConfigError(msg, remedy=f'set [provider.prices."{model}"] in cuda-harness.toml')
        spent, expected = self._usd(entries), self._usd(pending)
        if spent + expected > most:
            detail = f"{spent:.4f} of {most:.4f} USD are spent, the next call needs about {expected:.4f}"
            raise BudgetExhausted(limit="max_usd", detail=detail)


def entry_of(record: Mapping[str, Any]) -> tuple[Entry, float]:
    """Return the entry of a journal record, and the run's wall seconds when it was written."""
    usage = record.get("usage") or {}
    entry = Entry(
        model=str(record.get("model", "")),
        usage=Usage(input_tokens=usage.get("input_tokens"), output_tokens=usage.get("output_tokens")),
        prompt_chars=int(record.get("prompt_chars") or 0),
        reply_chars=len(str(record.get("reply", ""))),
    )
    return entry, float(record.get("elapsed_s") or 0.0)


def _tokens(chars: int) -> int:
    return int(chars / CHARS_PER_TOKEN)
