"""The estimate of a target's time from tiny runs, and the sizes that follow from it."""

import math
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.tools.execute.protocol import DeviceFacts, Job, JobFault, JobOk, JobResult, LaunchOp
from cuda_harness.tools.synthesize.shapes import work
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.toolchain.source import inspect
from cuda_harness.tools.verify.climb import Climb
from cuda_harness.tools.verify.target import (
    Measured,
    bearable_target,
    estimated_cpu_s,
    estimated_s,
    tiny_runs,
)

SOURCE = 'extern "C" __global__ void k(const float* a, const float* b, float* c, int m, int n, int k) {}'
IR: dict[str, Any] = {
    "name": "product", "dims": [{"name": d, "value": 1024} for d in "mnk"],
    "tensors": [{"name": "a", "role": "in", "dtype": "float32", "shape": ["m", "k"]},
                {"name": "b", "role": "in", "dtype": "float32", "shape": ["k", "n"]},
                {"name": "c", "role": "out", "dtype": "float32", "shape": ["m", "n"]}],
    "cost": {"flops": "2*m*n*k", "bytes": "4*(m*k + k*n + m*n)"},
}  # fmt: skip
PLAN: dict[str, Any] = {
    "steps": [
        {
            "launch": "k",
            "grid": ["cdiv(m*n, 256)"],
            "block": [256],
            "args": ["a", "b", "c", "m", "n", "k"],
        }
    ]
}
START_S = 0.003


@dataclass
class ModelExecutor:
    """Takes the time that a formula of sizes and threads gives, without running anything."""

    per_work_s: float
    per_thread_s: float = 1e-7
    cores: int = 1
    runs: int = 10**9
    """Jobs that end well; later ones time out."""
    name: str = "cpu"
    modes: frozenset[str] = frozenset({"plain", "check"})
    jobs: list[Job] = field(default_factory=list)

    def device(self) -> DeviceFacts:
        return DeviceFacts("model")

    def call_s(self, job: Job) -> float:
        launch = job.program.ops[0]
        assert isinstance(launch, LaunchOp)
        m, n, k = (int(a.value) for a in launch.args[3:])  # type: ignore[union-attr]
        threads = math.prod(launch.grid) * math.prod(launch.block)
        return 2 * m * n * k * self.per_work_s + threads * self.per_thread_s

    def run(self, job: Job) -> JobResult:
        self.jobs.append(job)
        if len(self.jobs) > self.runs:
            return JobFault("timeout", "no end")
        calls = len(job.calls)
        each = (START_S + self.call_s(job), *(self.call_s(job),) * (calls - 1))
        return JobOk((), sum(each) / self.cores, cpu_seconds=each)


def climb_of(executor: ModelExecutor) -> Climb:
    ir = KernelIR.model_validate(IR)
    suite = Suite(ir, "reference", runner=None, seed=3)  # type: ignore[arg-type]
    kernel = Kernel(source=SOURCE, plan=LaunchPlan.model_validate(PLAN))
    climb = Climb(kernel, ir, suite, executor, None, None, "sm_90a", 1, time.monotonic() + 60)  # type: ignore[arg-type]
    climb.facts = inspect(SOURCE)
    return climb


def run_of(work_: int, threads: int, seconds: float) -> Measured:
    return Measured(work_, threads, 12, seconds, 0.0, 1.0)


@given(st.floats(1e-10, 1e-6), st.floats(1e-8, 1e-4))
def test_costs_of_threads_and_of_work_are_told_apart(a: float, b: float) -> None:
    runs = [run_of(w, t, a * w + b * t) for w, t in ((10**6, 1000), (8 * 10**6, 1000), (8 * 10**6, 8000))]
    expected = a * 10**9 + b * 10**6
    assert estimated_cpu_s(runs, 10**9, 10**6) == pytest.approx(expected, rel=0.1)


def test_runs_that_cannot_tell_them_apart_share_between_both() -> None:
    runs = [run_of(1000 * k, 10 * k, 0.01 * k) for k in (1, 8)]
    by_threads, by_work = 0.08, 0.08 * 64
    assert by_threads < estimated_cpu_s(runs, 64 * 8000, 80) < by_work


def test_a_run_below_the_clock_says_little() -> None:
    runs = [run_of(1000, 100, 0.0), run_of(8000, 800, 0.004)]
    assert estimated_cpu_s(runs, 80_000, 8000) == pytest.approx(0.04, rel=0.1)


def test_the_start_of_a_process_is_paid_once() -> None:
    runs = [Measured(10**6, 1000, 12, 0.01, 0.004, 1.0)]
    assert estimated_cpu_s(runs, 10**6, 1000) == pytest.approx(0.014, rel=0.05)


@pytest.mark.parametrize(("per_work_s", "per_thread_s"), [(1e-9, 1e-8), (1e-12, 1e-6), (4e-9, 1e-6)])
def test_tiny_runs_foretell_the_target(per_work_s: float, per_thread_s: float) -> None:
    executor = ModelExecutor(per_work_s, per_thread_s)
    climb = climb_of(executor)
    full = climb.ir.target_dims

    runs = tiny_runs(climb, 20.0)

    assert isinstance(runs, list)
    assert max(r.work for r in runs) * 32 <= work(climb.ir, full)
    expected = 2 * 1024**3 * per_work_s + 1024**2 * per_thread_s
    assert estimated_s(climb, runs, full) == pytest.approx(expected, rel=0.2)


def test_a_target_that_fits_runs_in_full_after_tiny_runs_alone() -> None:
    executor = ModelExecutor(per_work_s=3e-9)  # 6.6 s
    assert bearable_target(climb_of(executor), 20.0) == {"m": 1024, "n": 1024, "k": 1024}
    assert max(executor.call_s(j) for j in executor.jobs) < 0.1


def test_a_target_that_does_not_fit_is_scaled_to_what_does() -> None:
    executor = ModelExecutor(per_work_s=1e-7)  # 215 s
    climb = climb_of(executor)
    dims = bearable_target(climb, 20.0)
    seconds = 1e-7 * work(climb.ir, dims)
    assert 2.0 < seconds <= 20.0
    assert all(executor.call_s(j) <= 20.0 for j in executor.jobs)


def test_cores_that_share_the_work_count() -> None:
    executor = ModelExecutor(per_work_s=2e-8, cores=8)  # 43 processor seconds, 5.4 by the clock
    assert bearable_target(climb_of(executor), 20.0) == {"m": 1024, "n": 1024, "k": 1024}


def test_sizes_that_do_not_run_are_left_to_the_stage() -> None:
    executor = ModelExecutor(per_work_s=1e-9, runs=0)
    dims = bearable_target(climb_of(executor), 20.0)
    assert work(KernelIR.model_validate(IR), dims) < 2_000_000
    assert len(executor.jobs) == 1
