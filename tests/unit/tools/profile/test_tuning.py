"""Tuning and timing against a scripted clock: times come from a formula, so nothing here is a measurement."""

import contextlib
from pathlib import Path

import numpy as np
import pytest
from tests.fakes.scripted_clock import ScriptedClock

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.results import Timing, TimingNotMeasured
from cuda_harness.state.suite import Inputs
from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.profile.ceilings import Ceilings
from cuda_harness.tools.profile.configurations import reordered
from cuda_harness.tools.profile.timing import Baseline, time_kernel
from cuda_harness.tools.profile.tuning import Tuning, tune
from cuda_harness.tools.profile.workload import Workload, workload
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.synthesize.suite import Answer, Suite

IR = KernelIR.model_validate({
    "schema": "cuda-harness/ir/1", "name": "double", "dims": [{"name": "n", "value": 4096}],
    "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]}, {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
    "steps": [{"id": "s", "op": "scale", "reads": ["x"], "writes": ["y"], "formula": "y[i] = 2*x[i]"}],
})  # fmt: skip
KERNEL = Kernel(
    source='extern "C" __global__ void twice(float *y, const float *x, int n) { int i = blockIdx.x * BLOCK + threadIdx.x; if (i < n) y[i] = 2.0f * x[i]; }',
    plan=LaunchPlan.model_validate({
        "schema": "cuda-harness/plan/1", "tunables": {"BLOCK": [256, 64, 128, 512]},
        "steps": [{"launch": "twice", "grid": ["cdiv(n, BLOCK)"], "block": ["BLOCK"], "args": ["y", "x", "n"]}],
    }),
)  # fmt: skip
LIMITS = Ceilings(bandwidth_bytes_per_s=4e12, launch_us=2.0, flops_per_s=6e13, l2_bytes=1 << 20)


@pytest.fixture
def work() -> Workload:
    made = workload(IR, specs=Inputs(), seed=3)
    truth = {
        k: Answer({"y": 2.0 * c["x"].astype(np.float64)}, {}, {"y": np.zeros(4096)})
        for k, c in enumerate(made.contents)
    }
    made.answers, made.why_no_truth = truth, ""
    return made


@pytest.fixture
def cubin(tmp_path: Path) -> Path:
    path = tmp_path / "k.cubin"
    path.write_bytes(b"cubin")
    return path


FAST_512 = {256: 10.0, 64: 14.0, 128: 12.0, 512: 9.0}


def test_the_winner_comes_first_and_the_others_stay(cubin: Path, work: Workload, tmp_path: Path) -> None:
    found = tune(KERNEL, work, ScriptedClock(cubin, FAST_512), cache=tmp_path)
    assert isinstance(found, Tuning)
    assert found.changed
    assert found.kernel.plan.tunables == {"BLOCK": (512, 256, 64, 128)}
    assert found.kernel.source == KERNEL.source
    assert {t.tunables["BLOCK"]: t.status for t in found.trials} == dict.fromkeys(
        (256, 64, 128, 512), "timed"
    )
    assert found.comparison is not None
    assert found.comparison.ratio == pytest.approx(10 / 9, rel=0.01)


def test_a_winner_within_the_noise_leaves_the_default(cubin: Path, work: Workload, tmp_path: Path) -> None:
    clock = ScriptedClock(cubin, {256: 10.0, 64: 10.001, 128: 9.999, 512: 9.998})
    found = tune(KERNEL, work, clock, cache=tmp_path)
    assert isinstance(found, Tuning)
    assert not found.changed
    assert found.kernel == KERNEL


def test_bad_configurations_are_rows_of_the_table(cubin: Path, work: Workload, tmp_path: Path) -> None:
    clock = ScriptedClock(cubin, {**FAST_512, 64: 1.0}, wrong=frozenset({64}))
    clock.rejects = {512}
    found = tune(KERNEL, work, clock, cache=tmp_path)
    assert isinstance(found, Tuning)
    status = {t.tunables["BLOCK"]: t for t in found.trials}
    assert status[64].status == "wrong", "the quickest one wrote wrong results"
    assert status[512].status == "compile"
    assert "too many resources" in status[512].reason
    assert found.tunables == {"BLOCK": 256}


def test_one_that_crashes_does_not_take_the_others_with_it(
    cubin: Path, work: Workload, tmp_path: Path
) -> None:
    clock = ScriptedClock(cubin, FAST_512)
    clock.faults = {64}
    found = tune(KERNEL, work, clock, cache=tmp_path)
    assert isinstance(found, Tuning)
    status = {t.tunables["BLOCK"]: t.status for t in found.trials}
    assert status == {256: "timed", 64: "fault", 128: "timed", 512: "timed"}
    assert found.tunables == {"BLOCK": 512}


def test_a_kept_result_asks_no_device(cubin: Path, work: Workload, tmp_path: Path) -> None:
    first = tune(KERNEL, work, ScriptedClock(cubin, FAST_512), cache=tmp_path)
    idle = ScriptedClock(cubin, {})
    again = tune(KERNEL, work, idle, cache=tmp_path)
    assert isinstance(first, Tuning)
    assert isinstance(again, Tuning)
    assert again.cached
    assert not idle.timed
    assert (again.kernel, again.trials, again.comparison) == (first.kernel, first.trials, first.comparison)


def test_a_check_of_the_callers_keeps_a_configuration_out(
    cubin: Path, work: Workload, tmp_path: Path
) -> None:
    found = tune(
        KERNEL, work, ScriptedClock(cubin, FAST_512), cache=tmp_path,
        check=lambda k: "fails at n = 513" if k.plan.default_tunables()["BLOCK"] == 512 else None,
    )  # fmt: skip
    assert isinstance(found, Tuning)
    assert found.tunables == {"BLOCK": 256}
    assert any(t.reason == "fails at n = 513" for t in found.trials)


def test_a_plan_without_choices_is_left_alone(cubin: Path, work: Workload, tmp_path: Path) -> None:
    fixed = reordered(KERNEL, {}).model_copy(
        update={"plan": KERNEL.plan.model_copy(update={"tunables": {"BLOCK": (256,)}})}
    )
    clock = ScriptedClock(cubin, FAST_512)
    found = tune(fixed, work, clock, cache=tmp_path)
    assert isinstance(found, Tuning)
    assert not found.changed
    assert not clock.timed


# ---- one kernel ----
def test_a_time_carries_floor_clock_and_baseline(cubin: Path, work: Workload) -> None:
    slower = reordered(KERNEL, {"BLOCK": 64})
    timing = time_kernel(
        KERNEL, work, ScriptedClock(cubin, FAST_512), limits=LIMITS, baseline=Baseline("the first", slower)
    )
    assert isinstance(timing, Timing)
    assert timing.median_us == pytest.approx(10.0, rel=0.01)
    assert (timing.floor_us, timing.floor_of) == (2.0, "launch")
    assert timing.sol_fraction == pytest.approx(0.2, rel=0.02)
    assert timing.baseline == "the first"
    assert timing.baseline_sha256 == slower.sha256
    assert timing.speedup_vs_baseline == pytest.approx(1.4, rel=0.01)
    assert (timing.clock_mhz, timing.throttled, timing.contended) == (1980, False, False)
    assert timing.compulsory_bytes == 2 * 4 * 4096


def test_a_throttled_measurement_is_repeated_and_then_marked(cubin: Path, work: Workload) -> None:
    clock = ScriptedClock(cubin, FAST_512)
    clock.clocks = [{"sm_mhz": 900, "reasons": 0x40}]
    timing = time_kernel(KERNEL, work, clock, limits=LIMITS)
    assert isinstance(timing, Timing)
    assert len(clock.timed) == 2
    assert timing.throttled
    assert any("held down" in n for n in timing.notes)


def test_a_wrong_result_in_a_timed_call_is_no_record(cubin: Path, work: Workload) -> None:
    timing = time_kernel(KERNEL, work, ScriptedClock(cubin, FAST_512, wrong=frozenset({256})), limits=LIMITS)
    assert isinstance(timing, TimingNotMeasured)
    assert timing.rejected
    assert "wrong result" in timing.reason


def test_a_time_below_the_bytes_is_refused_with_its_arithmetic(cubin: Path, work: Workload) -> None:
    slow_memory = LIMITS.model_copy(update={"bandwidth_bytes_per_s": 1e8, "l2_bytes": 0})
    timing = time_kernel(KERNEL, work, ScriptedClock(cubin, FAST_512), limits=slow_memory)
    assert isinstance(timing, TimingNotMeasured)
    assert timing.rejected
    assert "32768 bytes must cross memory" in timing.reason


def test_a_fault_while_timed_is_the_reason_for_no_time(cubin: Path, work: Workload) -> None:
    clock = ScriptedClock(cubin, FAST_512)
    clock.faults = {256}
    timing = time_kernel(KERNEL, work, clock, limits=LIMITS)
    assert isinstance(timing, TimingNotMeasured)
    assert not timing.rejected
    assert "died" in timing.reason


def test_outputs_found_right_are_asked_for_once(cubin: Path, work: Workload) -> None:
    clock = ScriptedClock(cubin, FAST_512)
    first = time_kernel(KERNEL, work, clock, limits=LIMITS)
    assert isinstance(first, Timing)
    assert len(work.right) == 1
    second = time_kernel(KERNEL, work, clock, limits=LIMITS)
    assert isinstance(second, Timing)
    assert clock.known[-1] == [list(k) for k in work.right]
    assert not any("no timed call was compared" in n for n in second.notes)
    assert any("no timed call was compared" in n for n in _unsent(cubin, work).notes)


def _unsent(cubin: Path, work: Workload) -> Timing:
    """Return the time of a kernel whose outputs were too large to come back."""
    clock = ScriptedClock(cubin, FAST_512)
    clock.sends = False
    work.right.clear()
    timing = time_kernel(KERNEL, work, clock, limits=LIMITS)
    assert isinstance(timing, Timing)
    return timing


def test_a_baseline_that_went_wrong_is_no_baseline(cubin: Path, work: Workload) -> None:
    broken = reordered(KERNEL, {"BLOCK": 64})
    clock = ScriptedClock(cubin, FAST_512, wrong=frozenset({64}))
    timing = time_kernel(KERNEL, work, clock, limits=LIMITS, baseline=Baseline("the first", broken))
    assert isinstance(timing, Timing)
    assert (timing.baseline, timing.speedup_vs_baseline) == (None, None)
    assert any("no speed-up over the first" in n for n in timing.notes)


def test_a_configuration_that_is_wrong_at_small_sizes_is_never_timed(
    cubin: Path, work: Workload, tmp_path: Path, executor: CpuExecutor
) -> None:
    source = KERNEL.source.replace("if (i < n)", "if (i < n - (BLOCK == 64 && n % 2))")
    lossy = KERNEL.model_copy(
        update={"source": source, "plan": KERNEL.plan.model_copy(update={"tunables": {"BLOCK": (256, 64)}})}
    )
    reference = (
        "def reference(inputs, dims, scalars):\n    return {'y': 2.0 * inputs['x'].astype('float64')}\n"
    )
    clock = ScriptedClock(cubin, {256: 10.0, 64: 5.0})
    clock.run = executor.run  # type: ignore[method-assign]
    with contextlib.closing(ReferenceRunner()) as references:
        suite = Suite(IR, reference, runner=references, seed=6)
        found = tune(lossy, work, clock, suite=suite, cache=tmp_path)
    assert isinstance(found, Tuning)
    status = {t.tunables["BLOCK"]: t for t in found.trials}
    assert status[64].status == "wrong"
    assert "at sizes" in status[64].reason
    assert all(64 not in blocks for blocks in clock.timed)
    assert found.tunables == {"BLOCK": 256}
