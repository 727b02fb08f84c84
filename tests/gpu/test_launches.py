"""Launch limits on a real device: told before the launch, and what is within them runs."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cuda_harness.tools.execute.protocol import (
    Buffer,
    Job,
    JobFault,
    JobNotRun,
    JobOk,
    LaunchOp,
    PointerArg,
    Program,
)

pytestmark = pytest.mark.gpu
GOOD = "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 2.0f * x[i];"
CLUSTER = (
    "#include <cooperative_groups.h>\n"
    'extern "C" __global__ void k(float *y, const float *x, int n) { '
    "unsigned size, rank; "
    'asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(size)); asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(rank)); '
    "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = (float)(size * 100 + rank); }"
)
GRID_SYNC = (
    "#include <cooperative_groups.h>\n"
    'extern "C" __global__ void k(float *y, const float *x, int n) { '
    "cooperative_groups::this_grid().sync(); "
    "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = 2.0f * x[i]; }"
)


def refused(done: Any) -> str:
    assert isinstance(done, JobFault), done
    assert done.fault == "launch_config", done
    return done.message


def has_clusters(gpu: Any) -> bool:
    return int(gpu.facts()["arch"].removeprefix("sm_").rstrip("a")) >= 90


def test_registers_are_told_as_arithmetic(gpu: Any, make_job: Any) -> None:
    # 160 live values per thread: more than 64 registers, so that 1024 threads do not fit.
    loads = " ".join(f"float v{i} = x[(i + {i}) % n];" for i in range(160))
    uses = "; ".join(f"s = s * v{i} + v{159 - i}" for i in range(160))
    body = f"int i = threadIdx.x; {loads} __syncthreads(); float s = 0; for (int r = 0; r < n; ++r) {{ {uses}; }} y[i] = s;"
    message = refused(gpu.run(make_job(body, grid=(1, 1, 1), block=(1024, 1, 1))))
    assert (
        "registers > 65536; use a block of at most" in message or "compiled for blocks of at most" in message
    )


def test_launch_bounds_are_kept(gpu: Any, make_job: Any) -> None:
    source = 'extern "C" __global__ void __launch_bounds__(128) k(float *y, const float *x, int n) { y[threadIdx.x] = x[threadIdx.x]; }'
    message = refused(gpu.run(make_job(source, grid=(1, 1, 1), block=(256, 1, 1))))
    assert "at most 128 threads" in message


@pytest.mark.parametrize(
    ("grid", "block", "part"),
    [
        ((1, 65_536, 1), (1, 1, 1), "grid.y is 65536; at most 65535"),
        ((1, 1, 70_000), (1, 1, 1), "grid.z is 70000"),
        ((1, 1, 1), (1, 1, 65), "block.z is 65; at most 64"),
        ((1, 1, 1), (1500, 1, 1), "block.x is 1500; at most 1024"),
        ((1, 1, 1), (64, 32, 1), "2048 threads; at most 1024"),
    ],
)
def test_axes_are_named(gpu: Any, make_job: Any, grid: Any, block: Any, part: str) -> None:
    assert part in refused(gpu.run(make_job(GOOD, grid=grid, block=block)))
    assert isinstance(gpu.run(make_job(GOOD)), JobOk)


def test_static_and_dynamic_shared_memory_count_together(gpu: Any, make_job: Any) -> None:
    body = "__shared__ float a[1024]; extern __shared__ float s[]; int i = blockIdx.x * blockDim.x + threadIdx.x; a[threadIdx.x] = x[i]; s[threadIdx.x] = a[threadIdx.x]; y[i] = 2.0f * s[threadIdx.x];"
    most = gpu.facts()["shared_bytes_optin"] - 4096
    assert isinstance(gpu.run(make_job(body, shared=most)), JobOk)
    message = refused(gpu.run(make_job(body, shared=most + 16)))
    assert f"4096 of static shared memory = {most + 16 + 4096} bytes" in message


def test_clusters(gpu: Any, make_job: Any) -> None:
    if not has_clusters(gpu):
        pytest.skip("needs compute capability 9.0")
    for size in (2, 8, 16):
        done = gpu.run(make_job(CLUSTER, cluster=(size, 1, 1)))
        assert isinstance(done, JobOk), done
        assert done.calls[0].arrays["y"][0] == 100 * size
        assert done.calls[0].arrays["y"][256] == 100 * size + 1
    assert "not a multiple of cluster.x = 3" in refused(gpu.run(make_job(CLUSTER, cluster=(3, 1, 1))))
    message = refused(gpu.run(make_job(CLUSTER, grid=(32, 1, 1), block=(128, 1, 1), cluster=(32, 1, 1))))
    assert "this kernel can have at most" in message


def test_cooperative_launches(gpu: Any, make_job: Any) -> None:
    done = gpu.run(make_job(GRID_SYNC, cooperative=True))
    assert isinstance(done, JobOk), done
    assert np.array_equal(done.calls[0].arrays["y"], 2 * np.arange(4096, dtype=np.float32))
    message = refused(gpu.run(make_job(GRID_SYNC, grid=(100_000, 1, 1), cooperative=True)))
    assert "resident at once" in message
    assert "num_sms * blocks_per_sm('k')" in message


def test_the_occupancy_api_answers(gpu: Any) -> None:
    from cuda_harness.state.kernel import Kernel, LaunchPlan

    source = 'extern "C" __global__ void k(float *y) { extern __shared__ float s[]; s[threadIdx.x] = 1; y[threadIdx.x] = s[0]; }'
    plan = LaunchPlan.model_validate(
        {"steps": [{"launch": "k", "grid": ["1"], "block": ["256"], "args": ["y"]}]}
    )
    kernel, facts = Kernel(source=source, plan=plan), gpu.facts()
    found = [
        gpu.blocks_per_sm(kernel, LaunchOp("k", (1, 1, 1), (256, 1, 1), shared, ()), arch=facts["arch"], macros={})
        for shared in (0, 100 * 1024, facts["shared_bytes_optin"])
    ]  # fmt: skip
    assert found[0] >= 4
    assert found[2] == 1
    assert found[0] >= found[1] >= found[2]


def test_more_memory_than_is_free_is_told_with_numbers(gpu: Any, make_job: Any) -> None:
    arch = gpu.facts()["arch"]
    free = gpu.facts()["free_bytes"]
    source = 'extern "C" __global__ void k(unsigned char *y) { y[0] = 1; }'

    def sized(count: int) -> Job:
        launch = LaunchOp("k", (1, 1, 1), (1, 1, 1), 0, (PointerArg("y"),))
        return Job(source, Program((Buffer("y", "uint8", count, "scratch"),), (launch,)), ({},), arch=arch)

    for count in (free - (1 << 20), 1 << 44):
        done = gpu.run(sized(count))
        assert isinstance(done, JobNotRun), done
        assert done.reason == "resources"
        assert done.evidence["needed_bytes"] > done.evidence["usable_bytes"]
    assert isinstance(gpu.run(sized(1 << 30)), JobOk)
    assert isinstance(gpu.run(make_job(GOOD)), JobOk)


def test_a_cubin_of_another_architecture_is_the_machines_matter(gpu: Any, make_job: Any) -> None:
    other = "sm_100" if has_clusters(gpu) else "sm_90"
    done = gpu.run(replace(make_job(GOOD), arch=other))
    assert isinstance(done, JobNotRun), done
    assert done.reason == "environment"
    assert "another architecture" in done.message
    assert isinstance(gpu.run(make_job(GOOD)), JobOk)


def test_a_symbol_that_is_not_there_is_named(gpu: Any, make_job: Any) -> None:
    from cuda_harness.tools.execute.protocol import SymbolOp

    job = make_job(GOOD)
    program = replace(job.program, ops=(SymbolOp("table", "x"), *job.program.ops))
    assert "'table' is not in the cubin" in refused(gpu.run(replace(job, program=program)))


def test_constant_memory_is_filled(gpu: Any, make_job: Any) -> None:
    from cuda_harness.tools.execute.protocol import SymbolOp

    source = 'extern "C" { __constant__ float table[64]; __global__ void k(float *y, const float *x, int n) { y[threadIdx.x] = table[threadIdx.x] + 1; } }'
    job = make_job(source, n=64, grid=(1, 1, 1), block=(64, 1, 1))
    program = replace(job.program, ops=(SymbolOp("table", "x"), *job.program.ops))
    done = gpu.run(replace(job, program=program))
    assert isinstance(done, JobOk), done
    assert np.array_equal(done.calls[0].arrays["y"], np.arange(64, dtype=np.float32) + 1)


def test_a_flood_of_prints_and_assertions_ends(gpu: Any, make_job: Any) -> None:
    done = gpu.run(make_job('printf("thread %d of block %d\\n", threadIdx.x, blockIdx.x);' + GOOD))
    assert isinstance(done, JobOk), done
    done = gpu.run(make_job("assert(x[0] > 1e9f);", grid=(4096, 1, 1)))
    assert isinstance(done, JobFault), done
    assert done.fault == "crash"
    assert "Assertion" in done.message


TILES = """
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


def test_tensor_maps_are_arguments(gpu: Any) -> None:
    from cuda_harness.tools.execute.protocol import TensorMapValue

    if not has_clusters(gpu):
        pytest.skip("needs compute capability 9.0")

    def tiles(shape: tuple[int, int], box: tuple[int, int]) -> Any:
        described = TensorMapValue("x", "float32", shape, box, "none", "128B", "zero")
        launch = LaunchOp("k", (2, 2, 1), (128, 1, 1), 0, (PointerArg("y"), described))
        buffers = (Buffer("x", "float32", shape[0] * shape[1], "in"), Buffer("y", "float32", 64 * 64, "out"))
        x = np.arange(shape[0] * shape[1], dtype=np.float32)
        return gpu.run(Job(TILES, Program(buffers, (launch,)), ({"x": x},), arch=gpu.facts()["arch"]))

    done = tiles((64, 64), (32, 32))
    assert isinstance(done, JobOk), done
    assert np.array_equal(done.calls[0].arrays["y"], np.arange(4096, dtype=np.float32) + 1)
    assert "the tensor map of 'x'" in refused(
        tiles((64, 63), (32, 32))
    )  # rows of 252 bytes: not a multiple of 16
