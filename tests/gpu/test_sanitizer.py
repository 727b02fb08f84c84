"""compute-sanitizer on a real GPU: each of its tools names the planted fault's line, and says nothing of a good kernel."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cuda_harness.tools.execute.protocol import Job
from cuda_harness.tools.verify.sanitizer import PROGRAM, ToolResult, watch
from cuda_harness.tools.verify.sanitizer_log import TOOLS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(shutil.which(PROGRAM) is None, reason="compute-sanitizer is not installed"),
]
HEAD = "\nint i = blockIdx.x * blockDim.x + threadIdx.x;\n"
FAULTS = {
    "out of bounds": ("y[i + 1] = x[i];", "memcheck", "out_of_bounds"),
    "misaligned": ("*(float2 *)(y + 1) = make_float2(x[i], x[0]);", "memcheck", "misaligned"),
    "shared memory": ("extern __shared__ float s[]; s[threadIdx.x] = x[i]; __syncthreads(); y[i] = s[threadIdx.x];", "memcheck", "out_of_bounds"),
    "race": ("__shared__ float s[256]; s[threadIdx.x] = x[i]; y[i] = s[255 - threadIdx.x];", "racecheck", "data_race"),
    "unwritten": ("y[i] = y[i] + x[i];", "initcheck", "uninitialized_read"),
    "barrier": ("if (threadIdx.x < 40) __syncthreads(); y[i] = x[i];", "synccheck", "barrier_divergence"),
}  # fmt: skip


def watched(gpu: Any, job: Job, folder: Path) -> dict[str, ToolResult]:
    program = shutil.which(PROGRAM)
    assert program is not None
    bare = replace(job, own_allocations=True, full_output=False)
    return {r.tool: r for r in watch(gpu, program, bare, folder, seconds=60.0)}


def test_a_good_kernel_is_clean_under_all_tools(
    gpu: Any, make_job: Callable[..., Job], tmp_path: Path
) -> None:
    found = watched(gpu, make_job(HEAD + "if (i < n) y[i] = 2 * x[i];"), tmp_path)

    assert set(found) == set(TOOLS)
    assert all(not r.findings and not r.reason for r in found.values()), found


@pytest.mark.parametrize(("body", "tool", "class_"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_found_by_its_tool(
    gpu: Any, make_job: Callable[..., Job], tmp_path: Path, body: str, tool: str, class_: str
) -> None:
    shared = 64 if "extern" in body else 0
    found = watched(gpu, make_job(HEAD + body, shared=shared), tmp_path)[tool]

    assert found.findings, found
    assert found.findings[0].class_ == class_
    assert found.findings[0].line == 3
    assert found.findings[0].kernel == "k"
