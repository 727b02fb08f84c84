"""The ladder and whole runs on a real GPU: verdicts, what is counted, what a machine without g++ still does."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cuda_harness import Settings, generate
from cuda_harness.state.budget import Budget
from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import Verdict
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.toolchain.nvrtc import Compiler
from cuda_harness.tools.verify.bundle import load_bundle
from cuda_harness.tools.verify.ladder import judge

pytestmark = pytest.mark.gpu
LIBRARY = Path(__file__).resolve().parents[2] / "examples" / "kernels"
REQUEST = "Softmax over each row of a float32 matrix with 64 rows and 300 columns."


@dataclass
class Judge:
    gpu: Any
    compiler: Compiler
    references: ReferenceRunner

    def __call__(self, name: str, *, replace: tuple[str, str] = ("", ""), **options: Any) -> Verdict:
        bundle = load_bundle(LIBRARY / name)
        kernel = bundle.kernel
        assert kernel is not None
        assert replace[0] in kernel.source
        changed = Kernel(
            source=kernel.source.replace(*replace) if replace[0] else kernel.source, plan=kernel.plan
        )
        suite = Suite(bundle.ir, bundle.reference, runner=self.references, seed=5, specs=bundle.specs)
        return judge(
            changed, bundle.ir, suite, executor=self.gpu, compiler=self.compiler, target=self.gpu.facts()["arch"],
            seed=5, max_seconds=90, **options,
        )  # fmt: skip


@pytest.fixture(scope="module")
def judged(gpu: Any) -> Iterator[Judge]:
    compiler, references = Compiler(), ReferenceRunner()
    yield Judge(gpu, compiler, references)
    compiler.close()
    references.close()


def test_without_a_host_compiler_all_but_tiny_is_measured(judged: Judge) -> None:
    verdict = judged("axpy", checker=None)
    assert verdict.accepted, verdict.failure
    states = {s.name: s.status for s in verdict.stages}
    assert states.pop("tiny") == "not_measured"
    states.pop("sanitizer")
    assert set(states.values()) == {"passed"}


def test_a_persistent_grid_asks_the_occupancy_api(judged: Judge) -> None:
    verdict = judged("persistent_grid")
    assert verdict.accepted, verdict.failure


def test_state_that_outlives_a_call_is_found(judged: Judge) -> None:
    source = (LIBRARY / "axpy" / "kernel.cu").read_text()
    entry = source[source.index('extern "C"') :]
    leaking = "__device__ int calls_so_far;\n" + entry.replace("{", "{ if (blockIdx.x == 0 && threadIdx.x == 0) atomicAdd(&calls_so_far, 1); if (calls_so_far > 20) return;", 1)  # fmt: skip
    verdict = judged("axpy", replace=(entry, leaking))
    assert verdict.outcome == "rejected", [(s.name, s.status, s.detail) for s in verdict.stages]


def test_a_race_that_no_cpu_has_seen_is_rejected(judged: Judge) -> None:
    verdict = judged("tile_reduce", checker=None)
    assert verdict.accepted, verdict.failure
    source = (LIBRARY / "softmax_online" / "kernel.cu").read_text()
    assert "__syncthreads();" in source
    racing = judged("softmax_online", replace=("__syncthreads();", ";"), checker=None)
    assert racing.outcome == "rejected", [(s.name, s.status, s.detail) for s in racing.stages]


def test_a_run_counts_its_gpu_seconds_and_compiles_for_the_device(gpu: Any, tmp_path: Path) -> None:
    made = generate(
        REQUEST, model="offline", executor="cuda:0", out=tmp_path, settings=Settings(libraries=False), seed=3,
        budget=Budget(rounds=0),
    )  # fmt: skip
    assert made.status == "verified", made.stop
    assert 0 < made.document["usage"]["gpu_seconds"] < 300
    assert made.document["target"] == gpu.facts()["arch"]


def test_a_limit_of_gpu_seconds_stops_a_search_with_its_best_kernel(tmp_path: Path) -> None:
    made = generate(
        REQUEST, model="offline", executor="cuda:0", out=tmp_path, settings=Settings(libraries=False), seed=3,
        budget=Budget(max_gpu_seconds=1e-6, rounds=3, branches=2),
    )  # fmt: skip
    stop = made.document["stop"]
    assert made.status == "verified"
    assert stop["reason"] == "budget"
    assert "max_gpu_seconds" in stop["detail"]
    assert made.document["usage"]["gpu_seconds"] > 0
    assert not made.document["branches"]


TILE_COPY = """
extern "C" __global__ void k(float *y, const __grid_constant__ CUtensorMap map) {
  __shared__ alignas(128) float tile[1024];
  __shared__ alignas(8) unsigned long long barrier;
  unsigned to = (unsigned)__cvta_generic_to_shared(tile), bar = (unsigned)__cvta_generic_to_shared(&barrier);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(bar));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(bar), "r"(4096) : "memory");
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(to), "l"(&map), "r"((int)blockIdx.x * 32), "r"((int)blockIdx.y * 32), "r"(bar) : "memory");
  }
  __syncthreads();
  asm volatile("{ .reg .pred p; again%=: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra again%=; }" :: "r"(bar) : "memory");
  for (int e = threadIdx.x; e < 1024; e += blockDim.x)
    y[(blockIdx.y * 32 + e / 32) * 64 + blockIdx.x * 32 + e % 32] = tile[e] + 1.0f;
}
"""


def test_a_plan_with_a_tensor_map_is_judged(judged: Judge) -> None:
    from cuda_harness.state.ir import KernelIR
    from cuda_harness.state.kernel import LaunchPlan

    if int(judged.gpu.facts()["arch"].removeprefix("sm_").rstrip("a")) < 90:
        pytest.skip("needs compute capability 9.0")
    ir = KernelIR.model_validate({
        "name": "add_one", "dims": [{"name": "m", "value": 64, "fixed": True}, {"name": "n", "value": 64, "fixed": True}],
        "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["m", "n"]},
                    {"name": "y", "role": "out", "dtype": "float32", "shape": ["m", "n"]}],
        "steps": [{"id": "add", "op": "add", "reads": ["x"], "writes": ["y"], "formula": "y[i,j] = x[i,j] + 1"}],
        "cost": {"flops": "m*n", "bytes": "8*m*n"},
    })  # fmt: skip
    plan = LaunchPlan.model_validate({
        "steps": [{"launch": "k", "grid": ["n // 32", "m // 32"], "block": [128],
                   "args": ["y", {"tensor_map": {"tensor": "x", "box": [32, 32]}}]}],
    })  # fmt: skip
    reference = "import numpy as np\n\ndef reference(inputs, dims, scalars):\n    return {'y': inputs['x'].astype(np.float64) + 1.0}\n"
    suite = Suite(ir, reference, runner=judged.references, seed=5)
    verdict = judge(
        Kernel(source=TILE_COPY, plan=plan), ir, suite, executor=judged.gpu, compiler=judged.compiler,
        target=judged.gpu.facts()["arch"], seed=5, max_seconds=60,
    )  # fmt: skip
    assert verdict.accepted, verdict.failure
