"""Speed of the CPU executor: threads a second, a tiled matrix product, check over plain, compile time.

Numbers are medians over a few runs; the caller writes them into the bench report.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cuda_harness.state.errors import ExecutorUnavailable
from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.protocol import (
    Buffer,
    Job,
    JobOk,
    LaunchOp,
    Mode,
    PointerArg,
    Program,
    ValueArg,
)

_ADD = """extern "C" __global__ void add(const float* __restrict__ x, float* __restrict__ y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + 1.0f;
}
"""
_MATMUL = """extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float ta[16][16], tb[16][16];
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0.0f;
  for (int t = 0; t < n; t += 16) {
    ta[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
    tb[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + col];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += ta[threadIdx.y][k] * tb[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + col] = sum;
}
"""
_REPEATS = 5


def add_job(n: int, mode: Mode) -> Job:
    """Return one trivial thread an element, 256 a block."""
    launch = LaunchOp(
        "add", (-(-n // 256), 1, 1), (256, 1, 1), 0, (PointerArg("x"), PointerArg("y"), ValueArg("int32", n))
    )
    program = Program((Buffer("x", "float32", n, "in"), Buffer("y", "float32", n, "out")), (launch,))
    return Job(_ADD, program, ({"x": np.ones(n, np.float32)},), mode=mode, deadline_s=60, full_output=False)


def matmul_job(n: int, mode: Mode) -> Job:
    """Return an n x n product by 16 x 16 tiles in shared memory; n is a multiple of 16."""
    args = (PointerArg("a"), PointerArg("b"), PointerArg("c"), ValueArg("int32", n))
    launch = LaunchOp("matmul", (n // 16, n // 16, 1), (16, 16, 1), 0, args)
    buffers = (
        Buffer("a", "float32", n * n, "in"),
        Buffer("b", "float32", n * n, "in"),
        Buffer("c", "float32", n * n, "out"),
    )
    square = np.ones(n * n, np.float32)
    return Job(
        _MATMUL,
        Program(buffers, (launch,)),
        ({"a": square, "b": square},),
        mode=mode,
        deadline_s=60,
        full_output=False,
    )


def _kernel_seconds(executor: CpuExecutor, job: Job) -> float:
    """Return the median time inside the kernels, in seconds.

    Raises:
        ExecutorUnavailable: If the job did not run to its end; this machine cannot be measured.
    """
    times = []
    for _ in range(_REPEATS):
        done = executor.run(job)
        if not isinstance(done, JobOk):
            raise ExecutorUnavailable(CpuExecutor.name, f"the speed test did not run: {done.message}")
        times.append(done.seconds)
    return statistics.median(times)


def plain_mthreads_per_s(cache: Path | None = None) -> float:
    """Return millions of trivial threads a second on one core."""
    n = 1 << 22
    return n / _kernel_seconds(CpuExecutor(cache=cache, workers=1), add_job(n, "plain")) / 1e6


def matmul256_ms(cache: Path | None = None) -> float:
    """Return milliseconds of a tiled 256^3 matrix product in plain mode on one core."""
    return 1e3 * _kernel_seconds(CpuExecutor(cache=cache, workers=1), matmul_job(256, "plain"))


def check_over_plain(cache: Path | None = None) -> float:
    """Return how many times longer check mode takes than plain mode on one core, for the tiled product."""
    executor = CpuExecutor(cache=cache, workers=1)
    return _kernel_seconds(executor, matmul_job(256, "check")) / _kernel_seconds(
        executor, matmul_job(256, "plain")
    )


def compile_s(cache: Path | None = None) -> float:
    """Return seconds from source to shared object for a typical kernel, precompiled header present.

    Args:
        cache: A folder without builds of an earlier measurement.
    """
    executor = CpuExecutor(cache=cache)
    executor.build(_MATMUL, {}, "plain", fast_math=False)
    times = []
    for number in range(_REPEATS):
        began = time.monotonic()
        # Another macro is another program: nothing comes from the cache.
        executor.build(_MATMUL, {"NUMBER": number}, "plain", fast_math=False)
        times.append(time.monotonic() - began)
    return statistics.median(times)


MEASURES: dict[str, tuple[Callable[[Path | None], float], str]] = {
    "cpu.plain_mthreads_per_s": (plain_mthreads_per_s, "million threads/s"),
    "cpu.matmul256_ms": (matmul256_ms, "ms"),
    "cpu.check_over_plain": (check_over_plain, "ratio"),
    "cpu.compile_s": (compile_s, "s"),
}
"""Name in the bench report -> function and unit."""


def measure() -> dict[str, float]:
    """Return every number, with a cache of its own that is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="cuda-harness-bench-"))
    try:
        return {name: function(folder) for name, (function, _) in MEASURES.items()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
