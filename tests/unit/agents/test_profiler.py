"""The Profiler without a GPU: what it says, and what a speed-up is measured against."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cuda_harness.agents.profiler import baseline_of, convicted, why_untimed, with_libraries
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.errors import BudgetExhausted
from cuda_harness.state.results import LibraryTime, StageResult, Timing, TimingNotMeasured, Verdict
from cuda_harness.state.settings import Settings
from cuda_harness.tools.archive.run_folder import RunFolder

ACCEPTED = Verdict(outcome="accepted", executor="cuda:0")
REJECTED = Verdict(outcome="rejected", executor="cuda:0")


def attempts(*made: Attempt) -> dict[int, Attempt]:
    return {a.id: a for a in made}


def test_a_kernel_of_the_cpu_executor_has_no_time_and_says_why() -> None:
    assert "CPU executor" in why_untimed(Verdict(outcome="accepted", executor="cpu"))
    assert "'emulator' does not time" in why_untimed(Verdict(outcome="accepted", executor="emulator"))


def test_the_baseline_is_the_first_verified_kernel() -> None:
    wrong = Attempt(id=0, sha256="a", verdict=REJECTED)
    first = Attempt(id=1, sha256="b", verdict=ACCEPTED)
    later = Attempt(id=4, sha256="c", verdict=ACCEPTED)
    found = baseline_of(attempts(wrong, first, later), later)
    assert found is not None
    assert found.id == 1


def test_the_first_verified_kernel_and_its_copies_have_no_baseline() -> None:
    first = Attempt(id=1, sha256="b", verdict=ACCEPTED)
    copy = Attempt(id=2, sha256="b", verdict=ACCEPTED)
    assert baseline_of(attempts(first, copy), first) is None
    assert baseline_of(attempts(first, copy), copy) is None


def test_a_wrong_result_while_timed_rejects_the_kernel_after_all() -> None:
    passed = Verdict(
        outcome="accepted", executor="cuda:0", stages=(StageResult(name="target", status="passed"), StageResult(name="repeat", status="passed"))
    )  # fmt: skip
    timing = TimingNotMeasured(
        reason="a timed call wrote a wrong result: y[0] is 1, expected 2", rejected=True, fault="mismatch"
    )
    found = convicted(passed, timing)
    assert found is not None
    assert found.outcome == "rejected"
    assert found.failure is not None
    assert (found.failure.stage, found.failure.class_) == ("target", "mismatch")
    assert "y[0] is 1" in found.failure.message
    assert [s.status for s in found.stages] == ["failed", "passed"]


def test_a_time_that_is_only_missing_convicts_nobody() -> None:
    for timing in (
        TimingNotMeasured(reason="no GPU"),
        TimingNotMeasured(reason="below the floor", rejected=True),
    ):
        assert convicted(ACCEPTED, timing) is ACCEPTED


TIMING = Timing(median_us=10.0, ci95_us=(9.9, 10.1), samples=30, device="a device")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Stand in for PyTorch; the limits it was asked with."""
    limits: list[float] = []

    def times(*_: Any, limit_s: float, **__: Any) -> tuple[LibraryTime, ...]:
        limits.append(limit_s)
        return (LibraryTime(name="torch.relu, eager", median_us=20.0),)

    monkeypatch.setattr("cuda_harness.tools.profile.library.torch_times", times)
    for name in ("workload_of", "suite_of"):
        monkeypatch.setattr(f"cuda_harness.agents.profiler.{name}", lambda *_: None)
    monkeypatch.setattr("cuda_harness.agents.profiler.clock_of", lambda _: object())
    return limits


def services(
    folder: Path, *, left: float | None = None, libraries: bool = True, spent: Any = lambda: None
) -> Any:
    return SimpleNamespace(
        folder=RunFolder(folder), ledger=SimpleNamespace(seconds_left=lambda: left, require_time=spent), cancelled=threading.Event(),
        settings=Settings(libraries=libraries), seed=1,
    )  # fmt: skip


def test_libraries_are_timed_once_a_run(asked: list[float], tmp_path: Path) -> None:
    given = services(tmp_path)
    for _ in range(2):
        (found,) = with_libraries(TIMING, None, given).libraries  # type: ignore[arg-type]
        assert found.median_us == 20.0
    assert len(asked) == 1


def test_libraries_are_left_out_where_nobody_wants_them(asked: list[float], tmp_path: Path) -> None:
    assert with_libraries(TIMING, None, services(tmp_path, libraries=False)).libraries == ()  # type: ignore[arg-type]
    assert not asked


def test_a_run_without_time_says_so_of_libraries(asked: list[float], tmp_path: Path) -> None:
    (late,) = with_libraries(TIMING, None, services(tmp_path, left=3.0)).libraries  # type: ignore[arg-type]
    assert late.median_us is None
    assert "time was over" in late.reason
    with_libraries(TIMING, None, services(tmp_path, left=45.0))  # type: ignore[arg-type]
    assert asked == [45.0]


def test_a_run_whose_gpu_seconds_are_spent_times_no_libraries(asked: list[float], tmp_path: Path) -> None:
    def over() -> None:
        raise BudgetExhausted(limit="max_gpu_seconds", detail="9 of 9 seconds are spent")

    (late,) = with_libraries(TIMING, None, services(tmp_path, spent=over)).libraries  # type: ignore[arg-type]
    assert late.median_us is None
    assert not asked
