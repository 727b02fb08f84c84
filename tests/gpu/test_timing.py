"""Times on a real GPU: believable, repeatable, and refused where they cannot be true."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.results import Timing, TimingNotMeasured
from cuda_harness.tools.execute.protocol import Job
from cuda_harness.tools.profile import counters, cupti
from cuda_harness.tools.profile.ceilings import Ceilings, ceilings
from cuda_harness.tools.profile.compare import Comparison, compare
from cuda_harness.tools.profile.counters import MOST_LAUNCHES, Counters
from cuda_harness.tools.profile.explain import explain
from cuda_harness.tools.profile.timing import Baseline, time_kernel
from cuda_harness.tools.profile.tuning import Tuning, tune
from cuda_harness.tools.profile.workload import Workload, workload
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.verify.bundle import load_bundle

pytestmark = pytest.mark.gpu
LIBRARY = Path(__file__).resolve().parents[2] / "examples" / "kernels"


@pytest.fixture(scope="module")
def gpu() -> Iterator[Any]:
    from cuda_harness.tools.execute.cuda.executor import CudaExecutor

    executor = CudaExecutor(0)
    yield executor
    executor.close()


@pytest.fixture(scope="module")
def limits(gpu: Any) -> Ceilings:
    found = ceilings(gpu)
    assert isinstance(found, Ceilings), found
    return found


@pytest.fixture(scope="module")
def references() -> Iterator[ReferenceRunner]:
    runner = ReferenceRunner()
    yield runner
    runner.close()


def prepared(
    name: str, references: ReferenceRunner, dims: dict[str, int] | None = None
) -> tuple[Kernel, Workload, Suite]:
    bundle = load_bundle(LIBRARY / name)
    assert bundle.kernel is not None
    ir: KernelIR = bundle.ir
    if dims:
        ir = ir.model_copy(
            update={"dims": tuple(d.model_copy(update={"value": dims.get(d.name, d.value)}) for d in ir.dims)}
        )
    suite = Suite(ir, bundle.reference, runner=references, seed=11, specs=bundle.specs)
    return bundle.kernel, workload(ir, suite=suite), suite


def test_ceilings_are_of_this_world(limits: Ceilings) -> None:
    assert 1e11 < limits.bandwidth_bytes_per_s < 2e13
    assert limits.most_bytes_per_s >= limits.bandwidth_bytes_per_s
    assert limits.flops_per_s is not None
    assert limits.tensor_flops_per_s is not None
    assert limits.tensor_flops_per_s > limits.flops_per_s > 1e12
    assert 0.5 < limits.launch_us < 30


def test_a_streaming_kernel_has_a_time_with_its_evidence(
    gpu: Any, limits: Ceilings, references: ReferenceRunner
) -> None:
    kernel, work, _ = prepared("copy", references, {"n": 1 << 24})
    timing = time_kernel(kernel, work, gpu, limits=limits, baseline=Baseline("itself", kernel), limit_s=4.0)
    assert isinstance(timing, Timing), timing
    assert timing.samples >= 30
    assert timing.ci95_us[0] <= timing.median_us <= timing.ci95_us[1]
    assert timing.sol_fraction is not None
    assert 0.4 < timing.sol_fraction <= 1
    assert timing.baseline == "itself"
    assert timing.speedup_vs_baseline == pytest.approx(1.0, abs=0.02)
    profile = explain(kernel, work, gpu, timing=timing, limits=limits, counters=False)
    assert profile.bound == "memory"


def test_two_sessions_agree(gpu: Any, limits: Ceilings, references: ReferenceRunner) -> None:
    kernel, work, _ = prepared("row_sum", references, {"rows": 4096, "cols": 4096})
    found = [time_kernel(kernel, work, gpu, limits=limits, limit_s=3.0, seed=k) for k in range(2)]
    medians = [t.median_us for t in found if isinstance(t, Timing)]
    assert len(medians) == 2, found
    assert medians[0] == pytest.approx(medians[1], rel=0.03)


def test_a_slower_kernel_is_told_apart(gpu: Any, references: ReferenceRunner) -> None:
    kernel, work, suite = prepared("copy", references, {"n": 1 << 22})
    slow = Kernel(
        source='extern "C" __global__ void one(const float *x, float *y, long long n)'
        "{ for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) y[i] = x[i]; }",
        plan=LaunchPlan.model_validate({"schema": "cuda-harness/plan/1", "steps": [{"launch": "one", "grid": [16], "block": [64], "args": ["x", "y", "n"]}]}),
    )  # fmt: skip
    found = compare(slow, kernel, work.ir, gpu, work=work, suite=suite, limit_s=3.0)
    assert isinstance(found, Comparison), found
    assert found.significant
    assert found.faster == "b"
    assert found.ratio > 2


def test_a_kernel_that_skips_its_work_while_timed_is_rejected(
    gpu: Any, limits: Ceilings, references: ReferenceRunner
) -> None:
    kernel, work, _ = prepared("copy", references, {"n": 1 << 22})
    lazy = Kernel(
        source='__device__ int calls; extern "C" __global__ void copy4(const float *x, float *y, long long n)'
        "{ if (calls > 2) return; long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; "
        "for (long long j = 4 * i; j < min(n, 4 * i + 4); ++j) y[j] = x[j]; if (i == 0) calls++; }",
        plan=kernel.plan,
    )
    timing = time_kernel(lazy, work, gpu, limits=limits, limit_s=2.0)
    assert isinstance(timing, TimingNotMeasured), timing
    assert timing.rejected
    assert "wrong result" in timing.reason


def test_a_plan_with_a_loop_and_one_of_several_launches_are_timed(
    gpu: Any, limits: Ceilings, references: ReferenceRunner
) -> None:
    for name in ("jacobi_while", "prefix_sum"):
        kernel, work, _ = prepared(name, references)
        timing = time_kernel(kernel, work, gpu, limits=limits, limit_s=1.5)
        assert isinstance(timing, Timing), (name, timing)


def test_tunables_are_searched_and_the_winner_comes_first(
    gpu: Any, references: ReferenceRunner, tmp_path: Path
) -> None:
    kernel, work, suite = prepared("relu_vec4", references, {"n": 1 << 22})
    found = tune(kernel, work, gpu, suite=suite, limit_s=2.0, cache=tmp_path)
    assert isinstance(found, Tuning), found
    assert all(t.status == "timed" for t in found.trials), found.trials
    assert found.kernel.plan.default_tunables() == found.tunables
    again = tune(kernel, work, gpu, suite=suite, limit_s=2.0, cache=tmp_path)
    assert isinstance(again, Tuning)
    assert again.cached
    assert again.tunables == found.tunables


def test_the_holding_kernel_keeps_host_time_out(
    gpu: Any, limits: Ceilings, references: ReferenceRunner
) -> None:
    kernel, work, _ = prepared("copy", references, {"n": 4096})
    timing = time_kernel(kernel, work, gpu, limits=limits, limit_s=1.5)
    assert isinstance(timing, Timing), timing
    assert timing.median_us < 12, (
        "a kernel of 4096 elements takes microseconds, however slowly Python queues it"
    )
    assert timing.graph_us is not None
    assert np.isfinite(timing.graph_us)


@pytest.fixture
def without_ncu(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "once_environment", lambda: {"PATH": "/nowhere"})


@pytest.mark.parametrize(
    ("name", "dims", "launches"),
    [
        ("copy", {"n": 1 << 24}, 1),
        ("softmax_online", {"rows": 4096, "cols": 2048}, 1),
        ("matmul_tiled", {}, 1),
        ("prefix_sum", {}, 3),
        ("jacobi_while", {}, MOST_LAUNCHES),
    ],
)
def test_cupti_counts_what_ncu_counts(
    gpu: Any, references: ReferenceRunner, name: str, dims: dict[str, int], launches: int
) -> None:
    kernel, work, _ = prepared(name, references, dims)
    made = work.contender("kernel", kernel, gpu, arch=gpu.facts()["arch"])
    job = Job(made.source, made.program, (work.contents[0],), arch=gpu.facts()["arch"], full_output=False)
    found = cupti.count(gpu, job)
    assert isinstance(found, Counters), found
    assert found.rung == "cupti"
    assert not found.missing
    assert len(found.launches) == launches
    reference = counters.count(gpu, job)
    if not isinstance(reference, Counters):
        pytest.skip(f"ncu does not count here: {reference.reason}")
    names = [k for k, _ in reference.launches]  # of a loop it counts one turn
    assert [k for k, _ in found.launches][: len(names)] == names
    for (_, ours), (_, theirs) in zip(found.launches, reference.launches, strict=False):
        for exact in ("registers", "limit_registers", "instructions"):
            assert ours[exact] == pytest.approx(theirs[exact], rel=0.01), exact
        assert ours["waves"] == pytest.approx(theirs["waves"], rel=0.05, abs=0.02)
        assert ours["sectors_per_load"] == pytest.approx(theirs["sectors_per_load"], rel=0.01)
        assert ours["time_ns"] == pytest.approx(theirs["time_ns"], rel=0.3, abs=2_000)
        assert ours["dram_read_bytes"] == pytest.approx(theirs["dram_read_bytes"], rel=0.15, abs=200_000)
        for share in ("sm_pct", "warps_active_pct", "l1_hit_pct"):
            assert ours[share] == pytest.approx(theirs[share], rel=0.25, abs=4.0), share


def test_without_ncu_the_diagnosis_stands_on_cupti(
    gpu: Any, limits: Ceilings, references: ReferenceRunner, without_ncu: None
) -> None:
    kernel, work, _ = prepared("copy", references, {"n": 1 << 26})
    timing = time_kernel(kernel, work, gpu, limits=limits, limit_s=1.0)
    profile = explain(kernel, work, gpu, timing=timing, limits=limits)
    assert (profile.rung, profile.bound) == ("cupti", "memory"), profile
    assert "not installed" in profile.reason
    assert profile.performance_score is not None
    assert isinstance(time_kernel(kernel, work, gpu, limits=limits, limit_s=1.0), Timing)


def test_the_command_times_explains_and_compares() -> None:
    import json

    from typer.testing import CliRunner

    from cuda_harness.graph.cli import app

    words = [
        "profile",
        str(LIBRARY / "matmul_tiled"),
        "--against",
        str(LIBRARY / "matmul_register_blocked"),
        "--executor",
        "cuda",
    ]
    done = CliRunner().invoke(app, [*words, "--seed", "5", "--no-libraries", "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["verdict"]["outcome"] == "accepted"
    assert report["timing"]["median_us"] > 1
    assert 0 < report["timing"]["sol_fraction"] <= 1
    assert report["profile"]["rung"] in {"ncu", "cupti", "cubin"}
    assert report["profile"]["bound"] != "unknown"
    assert report["against"]["ratio"] > 0
