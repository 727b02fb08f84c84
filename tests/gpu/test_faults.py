"""Faults on a real GPU: each gets its own class, and the next good kernel passes."""

from typing import Any

import numpy as np
import pytest

from cuda_harness.tools.execute.protocol import (
    Buffer,
    Job,
    JobFault,
    JobOk,
    LaunchOp,
    PointerArg,
    Program,
    ValueArg,
)

pytestmark = pytest.mark.gpu
N = 4096
GOOD = 'extern "C" __global__ void k(float *y, const float *x, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 2.0f * x[i]; }'
ENTRY = 'extern "C" __global__ void k(float *y, const float *x, int n)'


def job(gpu: Any, source: str, *, block: int = 256, shared: int = 0, deadline_s: float = 20.0) -> Job:
    args = (PointerArg("y"), PointerArg("x"), ValueArg("int32", N))
    launch = LaunchOp("k", (N // 256, 1, 1), (block, 1, 1), shared, args)
    program = Program((Buffer("x", "float32", N, "in"), Buffer("y", "float32", N, "out")), (launch,))
    x = np.arange(N, dtype=np.float32)
    return Job(source, program, ({"x": x},), arch=gpu.facts()["arch"], deadline_s=deadline_s)


def assert_good(gpu: Any) -> None:
    done = gpu.run(job(gpu, GOOD))
    assert isinstance(done, JobOk), done
    assert np.array_equal(done.calls[0].arrays["y"], 2.0 * np.arange(N, dtype=np.float32))
    assert done.calls[0].unwritten["y"] == 0


@pytest.mark.parametrize(
    ("name", "body", "options", "fault"),
    [
        ("wild write", "y[(size_t)1 << 40] = x[0];", {}, "out_of_bounds"),
        ("just past the end", "if (threadIdx.x == 0) y[n] = 1.0f; y[0] = x[0];", {}, "out_of_bounds"),
        ("misaligned", "*(float4 *)(y + 1) = make_float4(1, 2, 3, 4);", {}, "misaligned"),
        ("endless", "volatile const float *f = x; while (f[0] == 0.0f) { }", {"deadline_s": 8.0}, "timeout"),
        ("assertion", "assert(n < 0);", {}, "crash"),
        ("trap", "__trap();", {}, "crash"),
        ("block too large", "y[0] = x[0];", {"block": 1500}, "launch_config"),
        (
            "shared too large",
            "extern __shared__ float s[]; s[threadIdx.x] = x[0]; y[0] = s[0];",
            {"shared": 240_000},
            "launch_config",
        ),
        ("input modified", "const_cast<float *>(x)[0] = 7.0f; y[0] = 1.0f;", {}, "input_modified"),
    ],
)
def test_fault_is_named_and_the_next_kernel_passes(
    gpu: Any, name: str, body: str, options: dict[str, Any], fault: str
) -> None:
    done = gpu.run(job(gpu, f"{ENTRY} {{ {body} }}", **options))
    assert isinstance(done, JobFault), (name, done)
    assert done.fault == fault, done
    assert_good(gpu)


def test_large_dynamic_shared_memory_is_allowed_by_opt_in(gpu: Any) -> None:
    body = "extern __shared__ float s[]; int i = blockIdx.x * blockDim.x + threadIdx.x; s[threadIdx.x] = x[i]; y[i] = 2.0f * s[threadIdx.x];"
    for shared in (49_152 + 16, 65_536, gpu.facts()["shared_bytes_optin"]):
        done = gpu.run(job(gpu, f"{ENTRY} {{ {body} }}", shared=shared))
        assert isinstance(done, JobOk), (shared, done)


def test_outputs_never_written_are_seen(gpu: Any) -> None:
    done = gpu.run(
        job(gpu, f"{ENTRY} {{ if (threadIdx.x < 128) y[blockIdx.x * 256 + threadIdx.x] = x[0]; }}")
    )
    assert isinstance(done, JobOk)
    assert done.calls[0].unwritten["y"] == N * 4 // 2
