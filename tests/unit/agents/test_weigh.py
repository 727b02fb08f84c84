"""What the Evolver decides on: contests by time where both were timed, by counts where not, each with its evidence."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes.services import FakeServices

from cuda_harness.agents import weigh
from cuda_harness.agents.weigh import Scales
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.errors import StateError
from cuda_harness.state.harness import EvolverView
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.results import KernelFacts, Timing, TimingNotMeasured, Verdict
from cuda_harness.tools.execute.protocol import DeviceFacts
from cuda_harness.tools.profile.compare import judge_samples

IR = KernelIR.model_validate({
    "name": "k", "dims": [{"name": "n", "value": 64}],
    "tensors": [{"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
})  # fmt: skip
SOURCE = 'extern "C" __global__ void k(float* y, int n) {{ if (threadIdx.x < n) y[threadIdx.x] = {}.f; }}'
PLAN = LaunchPlan.model_validate({"steps": [{"launch": "k", "grid": [1], "block": [64], "args": ["y", "n"]}]})


def attempt(number: int, *, us: float | None, registers: int = 20) -> Attempt:
    verdict = Verdict(outcome="accepted", executor="x", kernels=(KernelFacts(name="k", registers=registers),))
    timing = (
        Timing(median_us=us, ci95_us=(us, us), samples=9, device="d")
        if us is not None
        else TimingNotMeasured(reason="no GPU")
    )
    return Attempt(id=number, sha256=str(number), verdict=verdict, timing=timing)


def scales(root: Path, base: Attempt, challenger: Attempt) -> Scales:
    executor = SimpleNamespace(name="x", device=lambda: DeviceFacts("any"))
    services = FakeServices(root, executor=executor, check_executor=None)
    for one in (base, challenger):
        services.folder.save_kernel(one.id, Kernel(source=SOURCE.format(one.id), plan=PLAN))
    view = EvolverView(run_dir="r", ir=IR, attempts={base.id: base, challenger.id: challenger})
    return Scales(services, view)  # type: ignore[arg-type]


def test_timed_kernels_are_compared_in_turns_and_a_contradiction_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, challenger = attempt(1, us=100.0), attempt(2, us=80.0)
    judge, seeds = scales(tmp_path, base, challenger), []

    def compared(_self: Scales, _base: Attempt, _challenger: Attempt, seed: int) -> Any:
        seeds.append(seed)
        return judge_samples([100.0 + k % 3 for k in range(30)], [80.0 + k % 3 for k in range(30)])

    monkeypatch.setattr(Scales, "_compare", compared)
    contest = judge.contest(base, challenger, number=3)
    assert contest.better
    assert contest.basis == "time"
    assert contest.seed == seeds[0]
    assert judge.contest(base, challenger, number=4).seed != contest.seed


def test_what_could_not_be_compared_is_not_better_and_says_why(tmp_path: Path) -> None:
    base, challenger = attempt(1, us=100.0), attempt(2, us=80.0)
    contest = scales(tmp_path, base, challenger).contest(base, challenger, number=1)
    assert not contest.better
    assert contest.ratio is None
    assert "does not time plans" in contest.reason


def test_the_measured_comparison_is_kept_beside_the_challenger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, challenger = attempt(1, us=100.0), attempt(2, us=80.0)
    judge = scales(tmp_path, base, challenger)
    found = TimingNotMeasured(reason="the device was busy")
    monkeypatch.setattr("cuda_harness.tools.profile.compare.compare", lambda *_, **__: found)
    monkeypatch.setattr(weigh, "clock_of", lambda _: object())
    monkeypatch.setattr(weigh, "workload_of", lambda *_: None)
    assert "the device was busy" in judge.contest(base, challenger, number=1).reason
    assert list((tmp_path / "attempts" / "002").glob("against-001-*.json"))


def test_untimed_kernels_are_compared_by_what_is_counted(tmp_path: Path) -> None:
    base, challenger = attempt(1, us=None, registers=100), attempt(2, us=None, registers=40)
    judge = scales(tmp_path, base, challenger)
    contest = judge.contest(base, challenger, number=1)
    assert contest.better
    assert contest.basis == "counts"
    assert "registers a thread 100 -> 80" in contest.reason
    assert judge.counts(challenger)["launches"] == 1.0
    assert judge.evidence(base).metric("registers") == 100.0


def test_without_an_ir_there_is_nothing_to_weigh(tmp_path: Path) -> None:
    one = attempt(1, us=None)
    with pytest.raises(StateError, match="without an IR"):
        Scales(FakeServices(tmp_path), EvolverView(attempts={1: one}))  # type: ignore[arg-type]
