"""The Profiler without a GPU: what it says, and what a speed-up is measured against."""

from cuda_harness.agents.profiler import baseline_of, convicted, why_untimed
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.results import StageResult, TimingNotMeasured, Verdict

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
