"""Limits stop before the call that would exceed them; nothing is counted twice."""

import json
import threading
from pathlib import Path

import pytest

from cuda_harness.agents.llm.ledger import Ledger
from cuda_harness.state.budget import Budget, Price, Usage
from cuda_harness.state.errors import BudgetExhausted, ConfigError
from cuda_harness.tools.archive.run_folder import RunFolder

PRICES = {"m": Price(input_usd_per_million=1.0, output_usd_per_million=10.0)}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def ledger(
    tmp_path: Path, clock: Clock | None = None, prices: dict[str, Price] | None = None, **limits: float
) -> Ledger:
    return Ledger(Budget(**limits), folder=RunFolder(tmp_path), prices=prices, clock=clock or Clock())


def spend(
    book: Ledger, key: str, *, tokens: tuple[int | None, int | None] = (50_000, 1_000), chars: int = 300
) -> None:
    reservation = book.reserve(model="m", prompt_chars=chars)
    book.settle(
        reservation, key=key, usage=Usage(input_tokens=tokens[0], output_tokens=tokens[1]), reply_chars=30
    )


def test_calls_are_limited(tmp_path: Path) -> None:
    book = ledger(tmp_path, max_calls=2)
    spend(book, "a")
    spend(book, "b")
    with pytest.raises(BudgetExhausted) as error:
        book.reserve(model="m", prompt_chars=1)
    assert error.value.limit == "max_calls"
    assert "--max-calls" in str(error.value)


def test_no_calls_at_all(tmp_path: Path) -> None:
    with pytest.raises(BudgetExhausted):
        ledger(tmp_path, max_calls=0).reserve(model="m", prompt_chars=1)


def test_calls_in_flight_count(tmp_path: Path) -> None:
    book = ledger(tmp_path, max_calls=2)
    first = book.reserve(model="m", prompt_chars=1)
    book.reserve(model="m", prompt_chars=1)
    with pytest.raises(BudgetExhausted):
        book.reserve(model="m", prompt_chars=1)
    book.release(first)
    book.reserve(model="m", prompt_chars=1)


def test_calls_left_count_those_in_flight(tmp_path: Path) -> None:
    book = ledger(tmp_path, max_calls=2)
    assert book.calls_left() == 2
    first = book.reserve(model="m", prompt_chars=1)
    assert book.calls_left() == 1
    book.release(first)
    spend(book, "a")
    assert book.calls_left() == 1
    unlimited = Ledger(Budget(max_calls=None), folder=RunFolder(tmp_path), clock=Clock())
    assert unlimited.calls_left() is None


def test_parallel_branches_never_pass_the_limit(tmp_path: Path) -> None:
    book = ledger(tmp_path, max_calls=20)
    refused: list[BudgetExhausted] = []

    def branch(name: int) -> None:
        for turn in range(10):
            try:
                spend(book, f"{name}-{turn}")
            except BudgetExhausted as exc:
                refused.append(exc)

    threads = [threading.Thread(target=branch, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (book.spend().calls, len(refused)) == (20, 20)


def test_tokens_stop_before_the_call_that_would_pass_the_limit(tmp_path: Path) -> None:
    book = ledger(tmp_path, max_tokens=120_000)
    spend(book, "a")  # 51 000 of a prompt that looked like 100: the next estimate is corrected
    spend(book, "b")
    with pytest.raises(BudgetExhausted, match="102000 of 120000"):
        book.reserve(model="m", prompt_chars=300)
    assert book.spend().calls == 2


def test_a_long_prompt_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(BudgetExhausted, match="max_tokens"):
        ledger(tmp_path, max_tokens=10_000).reserve(model="m", prompt_chars=60_000)


def test_a_reply_without_usage_is_unknown_in_the_report_and_estimated_for_the_limit(tmp_path: Path) -> None:
    book = ledger(tmp_path, prices=PRICES, max_tokens=20_000)
    spend(book, "a", tokens=(None, None), chars=30_000)
    told = book.spend()
    assert (told.calls, told.input_tokens, told.output_tokens, told.usd) == (1, None, None, None)
    with pytest.raises(BudgetExhausted, match="10010 of 20000"):
        book.reserve(model="m", prompt_chars=30_000)


def test_money_is_counted_by_price(tmp_path: Path) -> None:
    book = ledger(tmp_path, prices=PRICES, max_usd=0.2)
    spend(book, "a")
    assert book.spend().usd == pytest.approx(0.06)
    spend(book, "b")
    with pytest.raises(BudgetExhausted, match="max_usd"):
        book.reserve(model="m", prompt_chars=300)


def test_money_without_prices_is_unknown(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    spend(book, "a")
    assert book.spend().usd is None


def test_a_money_limit_needs_the_models_price(tmp_path: Path) -> None:
    book = ledger(tmp_path, prices=PRICES, max_usd=1.0)
    with pytest.raises(ConfigError, match="'other' has no price"):
        book.reserve(model="other", prompt_chars=1)


def test_the_built_in_templates_are_free(tmp_path: Path) -> None:
    book = ledger(tmp_path, prices=PRICES, max_usd=0.0001, max_tokens=10)
    reservation = book.reserve(model="offline", prompt_chars=10_000)
    book.settle(reservation, key="a", usage=Usage(input_tokens=0, output_tokens=0), reply_chars=9)
    assert book.spend().usd == 0.0


def test_time_is_limited_and_goes_on_after_a_resume(tmp_path: Path) -> None:
    clock = Clock()
    book = ledger(tmp_path, clock, max_seconds=60)
    clock.now += 20
    assert book.seconds_left() == pytest.approx(40)
    record(tmp_path, "planner-main-0-0.json", elapsed_s=50.0)
    again = ledger(tmp_path, clock, max_seconds=60)
    assert again.seconds_left() == pytest.approx(10)
    clock.now += 11
    with pytest.raises(BudgetExhausted, match="max_seconds"):
        again.reserve(model="m", prompt_chars=1)
    with pytest.raises(BudgetExhausted, match="61 of 60 seconds"):
        again.require_time()
    assert again.seconds_left() == 0
    assert ledger(tmp_path).seconds_left() is None
    ledger(tmp_path).require_time()


def record(root: Path, name: str, **fields: object) -> None:
    (root / "replies").mkdir(exist_ok=True)
    usage = {"input_tokens": 5, "output_tokens": 7}
    (root / "replies" / name).write_text(json.dumps({"model": "m", "usage": usage, "reply": "r", **fields}))


def test_the_journal_is_counted_once(tmp_path: Path) -> None:
    record(tmp_path, "a.json")
    record(tmp_path, "b.json")
    book = ledger(tmp_path, max_calls=3)
    assert (book.spend().calls, book.spend().input_tokens) == (2, 10)
    reservation = book.reserve(model="m", prompt_chars=1)
    book.settle(reservation, key="b.json", usage=Usage(input_tokens=5, output_tokens=7), reply_chars=1)
    assert (book.spend().calls, book.spend().output_tokens) == (2, 14)


def test_gpu_seconds_are_spent_and_limited(tmp_path: Path) -> None:
    counted: list[float | None] = [0.0]
    book = Ledger(
        Budget(max_gpu_seconds=10), folder=RunFolder(tmp_path), clock=Clock(), gpu_clock=lambda: counted[0]
    )
    book.require_time()
    counted[0] = 10.5
    with pytest.raises(BudgetExhausted, match=r"10\.5 of 10\.0 seconds on the GPU") as error:
        book.require_time()
    assert "--max-gpu-seconds" in str(error.value)
    counted[0] = 0.0  # the executor is closed
    assert book.spend().gpu_seconds == 10.5


def test_gpu_seconds_of_an_earlier_session_count(tmp_path: Path) -> None:
    (tmp_path / "replies").mkdir()
    record = {"model": "m", "usage": {}, "reply": "x", "elapsed_s": 5.0, "gpu_seconds": 7.25}
    (tmp_path / "replies" / "a.json").write_text(json.dumps(record))
    book = Ledger(Budget(), folder=RunFolder(tmp_path), clock=Clock(), gpu_clock=lambda: 1.0)
    assert book.spend().gpu_seconds == 8.25


def test_an_executor_that_does_not_count_cannot_keep_a_limit(tmp_path: Path) -> None:
    def unknown() -> None:
        return None

    assert Ledger(Budget(), folder=RunFolder(tmp_path), gpu_clock=unknown).spend().gpu_seconds is None
    book = Ledger(Budget(max_gpu_seconds=1), folder=RunFolder(tmp_path), gpu_clock=unknown)
    with pytest.raises(ConfigError, match="does not count"):
        book.require_time()


def test_seconds_of_a_session_that_ended_count_beyond_its_last_reply(tmp_path: Path) -> None:
    record(tmp_path, "planner-main-0-0.json", elapsed_s=50.0)
    (tmp_path / "result.json").write_text(json.dumps({"usage": {"seconds": 98.4, "gpu_seconds": 3.5}}))
    clock = Clock()
    book = ledger(tmp_path, clock)
    clock.now += 10.0
    assert book.spend().seconds == pytest.approx(108.4)
    assert book.gpu_seconds == pytest.approx(3.5)
