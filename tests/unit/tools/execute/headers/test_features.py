"""Each kernel of `kernels/` runs in both modes with NumPy's numbers, and is real CUDA: NVRTC compiles it."""

import re
from pathlib import Path

import numpy as np
import pytest
from tests.unit.tools.execute.headers import language_rows, library_rows
from tests.unit.tools.execute.headers.feature import run

from cuda_harness.state.results import CompileEnvironment, CompileOk
from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.protocol import JobNotRun, JobOk, Mode
from cuda_harness.tools.toolchain.nvrtc import Compiler

KERNELS = Path(__file__).parent / "kernels"
FEATURES = {**library_rows.ROWS, **language_rows.ROWS}


@pytest.mark.parametrize("mode", ["plain", "check"])
@pytest.mark.parametrize("name", FEATURES)
def test_feature_gives_numpys_numbers(executor: CpuExecutor, name: str, mode: Mode) -> None:
    feature = FEATURES[name]

    result = run(executor, name, feature, (KERNELS / f"{name}.cu").read_text(), mode)

    assert isinstance(result, JobOk), result
    arrays = result.calls[0].arrays
    for output, expected in feature.expected(feature.inputs).items():
        actual = arrays[output]
        assert actual.dtype == expected.dtype, output
        np.testing.assert_allclose(
            actual.astype(np.float64), expected.astype(np.float64), rtol=feature.tolerance, atol=feature.tolerance, err_msg=output
        )  # fmt: skip


def test_every_kernel_has_a_row() -> None:
    assert {path.stem for path in KERNELS.glob("*.cu")} == set(FEATURES)


@pytest.mark.parametrize("name", FEATURES)
def test_feature_is_real_cuda(name: str, compiler: Compiler) -> None:
    done = compiler.compile((KERNELS / f"{name}.cu").read_text(), arch="sm_90")

    if isinstance(done, CompileEnvironment):
        pytest.skip(f"needs NVRTC and its headers: {done.message}")
    assert isinstance(done, CompileOk), done


REFUSED = {
    "clusters": (
        (
            '#include <cooperative_groups.h>\nextern "C" __global__ void grid_sync(const int* x, int* p, int* y) {\n'
            "    cooperative_groups::this_cluster();\n}\n"
        ),
        "thread block clusters",
    ),
    "large tiles": (
        (
            '#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\nextern "C" __global__ void grid_sync(const int* x, int* p, int* y) {\n'
            "    cg::tiled_partition<64>(cg::this_thread_block()).sync();\n}\n"
        ),
        "tiles of more than 32 threads",
    ),
    "mma.sync in inline PTX": (
        (
            'extern "C" __global__ void grid_sync(const int* x, int* p, int* y) {\n    unsigned d = 0;\n'
            '    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0}, {%0}, {%0}, {%0};" : "+r"(d));\n}\n'
        ),
        "mma.sync",
    ),
    "a float beyond an integer where no cast can be written": (
        (
            '#define SET(to, value) to = value\nextern "C" __global__ void grid_sync(const int* x, int* p, int* y) {\n'
            "    SET(y[0], 3e9f + x[0]);\n}\n"
        ),
        "line 3: a value of type 'float' beyond the range of 'int'",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_run_is_unsupported_by_name(executor: CpuExecutor, what: str) -> None:
    source, words = REFUSED[what]

    result = run(executor, "grid_sync", FEATURES["grid_sync"], source, "plain")

    assert isinstance(result, JobNotRun), result
    assert result.reason == "unsupported"
    assert words in result.message
    assert re.match(r"line [234]: ", result.message), result
