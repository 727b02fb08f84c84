"""What GPU tests share: one executor of device 0, and jobs over one input and one output."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from cuda_harness.tools.execute.protocol import Buffer, Job, LaunchOp, PointerArg, Program, ValueArg

N = 4096
MakeJob = Callable[..., Job]


@pytest.fixture(scope="module")
def gpu() -> Iterator[Any]:
    from cuda_harness.tools.execute.cuda.executor import CudaExecutor

    executor = CudaExecutor(0)
    yield executor
    executor.close()


@pytest.fixture
def make_job(gpu: Any) -> MakeJob:
    """Return jobs `k(y, x, n)` over `N` floats; `source` is the kernel's body or a whole file."""

    def make(
        source: str, *, grid: Any = (N // 256, 1, 1), block: Any = (256, 1, 1), shared: int = 0, n: int = N,
        cluster: Any = None, cooperative: bool = False, calls: int = 1, **job: Any,
    ) -> Job:  # fmt: skip
        text = source if "__global__" in source else f'extern "C" __global__ void k(float *y, const float *x, int n) {{ {source} }}'  # fmt: skip
        args = (PointerArg("y"), PointerArg("x"), ValueArg("int32", n))
        launch = LaunchOp("k", grid, block, shared, args, cooperative, cluster)
        program = Program((Buffer("x", "float32", n, "in"), Buffer("y", "float32", n, "out")), (launch,))
        contents = tuple({"x": np.arange(n, dtype=np.float32) + i} for i in range(calls))
        return Job(text, program, contents, **{"arch": gpu.facts()["arch"], "deadline_s": 20.0, **job})

    return make
