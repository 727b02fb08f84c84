"""Misuse of the libraries is seen in check mode, at the line of the kernel that misuses them."""

import numpy as np
import pytest

from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.cpu.ptx import translate, unknown_instruction
from cuda_harness.tools.execute.protocol import Buffer, Job, JobFault, LaunchOp, PointerArg, Program

FAULTS = {
    "cub temporary storage used again without a barrier": (
        64,
        "data_race",
        """#include <cub/block/block_reduce.cuh>
extern "C" __global__ void k(const int* x, int* y) {
    typedef cub::BlockReduce<int, 64> Reduce;
    __shared__ typename Reduce::TempStorage temp;
    int a = Reduce(temp).Sum(x[threadIdx.x]);
    int b = Reduce(temp).Sum(2 * x[threadIdx.x]);
    if (threadIdx.x == 0) y[0] = a + b;
}
""",
    ),
    "copied bytes read without a wait": (
        64,
        "data_race",
        """#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
extern "C" __global__ void k(const int* x, int* y) {
    __shared__ int tile[64];
    auto block = cooperative_groups::this_thread_block();
    cooperative_groups::memcpy_async(block, tile, x, sizeof(int) * 64);
    y[threadIdx.x] = tile[63 - threadIdx.x];
}
""",
    ),
    "a stored fragment read without __syncwarp": (
        32,
        "data_race",
        """#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(const int* x, int* y) {
    __shared__ alignas(32) float tile[256];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> f;
    wmma::fill_fragment(f, 1.0f);
    wmma::store_matrix_sync(tile, f, 16, wmma::mem_row_major);
    y[threadIdx.x] = x[0] + (int)tile[255 - threadIdx.x];
}
""",
    ),
    "a half past the end": (
        64,
        "out_of_bounds",
        """#include <cuda_fp16.h>
extern "C" __global__ void k(const int* x, int* y) {
    reinterpret_cast<__half*>(y)[threadIdx.x + 65] = __float2half(1.0f);
}
""",
    ),
}


@pytest.mark.parametrize("what", FAULTS)
def test_misuse_is_reported(executor: CpuExecutor, what: str) -> None:
    block, fault, source = FAULTS[what]
    buffers = (Buffer("x", "int32", 64, "in"), Buffer("y", "int32", 64, "out"))
    launch = LaunchOp("k", (1, 1, 1), (block, 1, 1), 0, (PointerArg("x"), PointerArg("y")))
    job = Job(source, Program(buffers, (launch,)), ({"x": np.arange(64, dtype=np.int32)},), mode="check")

    result = executor.run(job)

    assert isinstance(result, JobFault), result
    assert result.fault == fault
    assert "line " in result.message


@pytest.mark.parametrize(
    ("statement", "unknown"),
    [
        ('asm volatile("" ::: "memory")', None),
        ('asm("mov.u32 %0, %%laneid;" : "=r"(lane))', None),
        ('asm("add.cc.u32 %0, %1, %2; addc.u32 %0, %0, 0;" : "+r"(a) : "r"(b), "r"(c))', None),
        ('asm("wgmma.fence.sync.aligned;" ::)', "wgmma.fence.sync.aligned"),
        ('asm("mov.u32 %0, %7;" : "=r"(a))', "mov.u32 %0, %7"),
        ('asm("bra DONE;" ::)', "bra DONE"),
    ],
)
def test_ptx_outside_the_table_is_named(statement: str, unknown: str | None) -> None:
    assert unknown_instruction(statement) == unknown
    assert (translate(statement) is None) == (unknown is not None)
