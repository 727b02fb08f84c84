"""Three tasks of our suite through the bench on a GPU: the program where nvcc is, else the plan."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cuda_harness.graph.cli import app
from cuda_harness.tools.benchmarks.candidate import Binary
from cuda_harness.tools.benchmarks.reference import sanitizer_faults
from cuda_harness.tools.benchmarks.scripts import Data

pytestmark = pytest.mark.gpu


RACY = """#include <cuda_runtime.h>
__global__ void racy(float* x) {
  __shared__ float s[256];
  s[threadIdx.x] = threadIdx.x;
  x[threadIdx.x] = s[255 - threadIdx.x];
}
int main() {
  float* x = nullptr;
  if (cudaMalloc(&x, 1024) != cudaSuccess) return 1;
  racy<<<1, 256>>>(x);
  return cudaDeviceSynchronize() == cudaSuccess ? 0 : 1;
}
"""


def test_a_race_of_a_reference_is_found(tmp_path: Path) -> None:
    for program in ("nvcc", "compute-sanitizer"):
        if shutil.which(program) is None:
            pytest.skip(f"needs {program}")
    binary = Binary(RACY, tmp_path, flags=("-std=c++17", "-lineinfo"))
    built = binary.build()
    assert built.status == "ok", built.message
    assert binary.path is not None
    told = sanitizer_faults(binary.path, Data({}, {}), None)
    assert any("racecheck" in t and "program.cu:" in t for t in told), told


def test_three_tasks_are_graded_on_the_gpu(tmp_path: Path) -> None:
    arguments = ["bench", "suite", "--out", str(tmp_path), "--model", "offline", "--executor", "cuda:0", "--ids", "1,4,5",
                 "--level", "3", "--rounds", "0", "--ladder-seconds", "60", "--jobs", "3", "--json"]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    expected = "program" if shutil.which("nvcc") else "cuda:0 plan"
    for row in rows:
        assert (row["status"], row["comp"], row["func"], row["ours"]) == ("verified", True, True, True), row
        assert row["graded_by"] == expected
        if row["speed_vs_reference"] is None:
            assert row["not_measured"]
        else:
            assert row["speed_vs_reference"] > 0
            assert row["score"] > 0
