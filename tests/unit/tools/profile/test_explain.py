"""The profile of a timed kernel where counters are not to be had."""

from pathlib import Path

import pytest
from tests.fakes.scripted_clock import ScriptedClock

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.results import Timing
from cuda_harness.tools.profile.ceilings import Ceilings
from cuda_harness.tools.profile.counters import METRICS
from cuda_harness.tools.profile.explain import explain
from cuda_harness.tools.profile.timing import time_kernel
from cuda_harness.tools.profile.workload import workload

IR = KernelIR.model_validate({
    "schema": "cuda-harness/ir/1", "name": "double", "dims": [{"name": "n", "value": 1 << 20}],
    "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]}, {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
    "steps": [{"id": "s", "op": "scale", "reads": ["x"], "writes": ["y"]}], "cost": {"flops": "n", "bytes": "8*n"},
})  # fmt: skip
LIMITS = Ceilings(bandwidth_bytes_per_s=4e12, launch_us=1.0, flops_per_s=6e13, l2_bytes=1 << 20)


def kernel(grid: str = "cdiv(n, 256)") -> Kernel:
    plan = {
        "schema": "cuda-harness/plan/1",
        "steps": [{"launch": "twice", "grid": [grid], "block": [256], "args": ["y", "x", "n"]}],
    }
    source = 'extern "C" __global__ void twice(float *y, const float *x, int n) { }'
    return Kernel(source=source, plan=LaunchPlan.model_validate(plan))


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedClock:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cubin = tmp_path / "k.cubin"
    cubin.write_bytes(b"cubin")
    return ScriptedClock(cubin, {256: 3.0})


def test_without_a_profiler_time_and_ceilings_say_what_bounds_it(clock: ScriptedClock) -> None:
    work = workload(IR, seed=1)
    timing = time_kernel(kernel(), work, clock, limits=LIMITS)
    assert isinstance(timing, Timing)
    profile = explain(kernel(), work, clock, timing=timing, limits=LIMITS)
    assert (profile.rung, profile.bound) == ("static", "memory"), "this clock's compiler tells no facts"
    assert "behind a profiler" in profile.reason
    assert "no counters here" in profile.reason
    assert profile.metrics["blocks"] == 4096
    assert profile.roofline["gb_s"] == pytest.approx(8 * (1 << 20) / 3.0e-6 / 1e9, rel=0.02)


def test_without_ncu_the_counters_of_cupti_say_what_bounds_it(clock: ScriptedClock) -> None:
    values = {
        METRICS["time_ns"]: 3000.0, METRICS["dram_pct"]: 81.0, METRICS["sm_pct"]: 20.0, METRICS["registers"]: 16.0, "sm__new.sum": 1.0,
    }  # fmt: skip
    clock.counted = {"status": "ok", "counted": [["twice", values]], "passes": 3}
    work = workload(IR, seed=1)
    timing = time_kernel(kernel(), work, clock, limits=LIMITS)
    profile = explain(kernel(), work, clock, timing=timing, limits=LIMITS)
    assert (profile.rung, profile.bound) == ("cupti", "memory")
    assert "DRAM 81 %" in profile.evidence[0]
    assert profile.metrics["twice.registers"] == 16.0
    assert "behind a profiler" in profile.reason
    assert explain(kernel(), work, clock, timing=timing, limits=LIMITS, counters=False).rung == "static"


def test_a_plan_that_does_not_expand_is_told(clock: ScriptedClock) -> None:
    profile = explain(kernel(grid="n*n*n"), workload(IR, seed=1), clock, timing=None, limits=LIMITS)
    assert profile.bound == "unknown"
    assert "does not expand" in profile.reason
