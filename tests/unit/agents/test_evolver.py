"""The Evolver's rules, and the Profiler's honest unknowns."""

from pathlib import Path
from typing import Any

import pytest
from tests.fakes.services import FakeRuntime, FakeServices

from cuda_harness.agents.evolver import choose_next, decide
from cuda_harness.agents.profiler import profile_kernel
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.budget import Budget
from cuda_harness.state.harness import EvolverView, ProfilerView
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import Failure, KernelFacts, TimingNotMeasured, Verdict

IR = KernelIR.model_validate(
    {
        "name": "f",
        "dims": [{"name": "n", "value": 1000}],
        "tensors": [{"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
        "cost": {"flops": "6*n", "bytes": "4*n"},
    }
)
FACTS = KernelFacts(name="k", registers=40, shared_bytes=None, spill_store_bytes=8)
ACCEPTED = Verdict(outcome="accepted", executor="cpu", kernels=(FACTS,))


def rejected(fault: str, message: str = "m") -> Verdict:
    failure = Failure.model_validate({"stage": "shapes", "class": fault, "message": message})
    return Verdict(outcome="rejected", executor="cpu", failure=failure)


def test_a_verified_kernel_ends_the_search_and_says_why_no_round_follows(tmp_path: Path) -> None:
    best = Attempt(id=2, sha256="a", verdict=ACCEPTED, timing=TimingNotMeasured(reason="no GPU"))
    state = EvolverView(
        run_dir="r", attempts={1: Attempt(id=1, sha256="b", verdict=rejected("mismatch")), 2: best}
    )
    services = FakeServices(tmp_path)
    update = choose_next(state, FakeRuntime(services))  # type: ignore[arg-type]
    assert update["decision"].action == "stop"  # type: ignore[union-attr]
    assert update["stop"].reason == "verified"  # type: ignore[union-attr]
    assert "no GPU" in update["stop"].detail  # type: ignore[union-attr]
    assert services.names() == ["next_chosen"]


@pytest.mark.parametrize(
    ("attempts", "budget", "action"),
    [
        ({}, {}, "write"),
        ({1: ("mismatch", "first")}, {}, "repair"),
        ({1: ("mismatch", "first")}, {"repairs": 0}, "redesign"),
        ({1: ("mismatch", "first")}, {"repairs": 0, "redesigns": 0}, "stop"),
        ({1: ("environment", "first")}, {}, "stop"),
        ({1: ("oracle", "first")}, {}, "stop"),
        ({1: ("unsupported", "first")}, {}, "redesign"),
    ],
)
def test_a_failed_kernel_is_decided_by_the_correctness_budget(
    attempts: dict[int, tuple[str, str]], budget: dict[str, Any], action: str
) -> None:
    held = {i: Attempt(id=i, sha256="a", strategy=s, verdict=rejected(f)) for i, (f, s) in attempts.items()}
    update = decide(EvolverView(attempts=held, budget=Budget(**budget)))
    decision = update["decision"]
    assert decision is not None
    assert decision.action == action


def test_the_order_of_attempts_changes_nothing() -> None:
    held = {i: Attempt(id=i, sha256=str(i), verdict=ACCEPTED) for i in (1, 2, 3)}
    turned = dict(reversed(held.items()))
    assert decide(EvolverView(attempts=held)) == decide(EvolverView(attempts=turned))


def test_a_verified_kernel_gets_a_reason_for_no_time_and_what_the_compiler_said(tmp_path: Path) -> None:
    held = {
        1: Attempt(id=1, sha256="a", verdict=rejected("mismatch")),
        2: Attempt(id=2, sha256="b", verdict=ACCEPTED),
    }
    services = FakeServices(tmp_path)
    update = profile_kernel(ProfilerView(run_dir="r", ir=IR, attempts=held), FakeRuntime(services))  # type: ignore[arg-type]
    assert list(update["attempts"]) == [2]
    attempt = update["attempts"][2]
    assert isinstance(attempt.timing, TimingNotMeasured)
    assert "CPU executor" in attempt.timing.reason
    assert attempt.median_us is None
    assert attempt.profile is not None
    assert (attempt.profile.rung, attempt.profile.bound) == ("cubin", "unknown")
    assert attempt.profile.metrics == {
        "k.registers": 40.0, "k.spill_store_bytes": 8.0, "flops": 6000.0, "bytes": 4000.0, "flops_per_byte": 1.5,
    }  # fmt: skip
    assert "registers spill to memory in k" in attempt.profile.sentence
    assert (tmp_path / "attempts/002/timing.json").is_file()


def test_a_profile_without_any_fact_claims_none(tmp_path: Path) -> None:
    bare = Attempt(id=1, sha256="b", verdict=Verdict(outcome="accepted", executor="mine"))
    update = profile_kernel(
        ProfilerView(run_dir="r", attempts={1: bare}), FakeRuntime(FakeServices(tmp_path))
    )  # type: ignore[arg-type]
    profile = update["attempts"][1].profile
    assert profile is not None
    assert (profile.rung, profile.metrics) == ("static", {})
    assert profile.sentence == "what bounds it was not measured"


def test_a_profiled_kernel_is_left_alone(tmp_path: Path) -> None:
    done = Attempt(id=1, sha256="b", verdict=ACCEPTED, timing=TimingNotMeasured(reason="r"))
    update = profile_kernel(
        ProfilerView(run_dir="r", attempts={1: done}), FakeRuntime(FakeServices(tmp_path))
    )  # type: ignore[arg-type]
    assert update["attempts"] == {}
