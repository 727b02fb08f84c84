"""The quick gate: kernels that cannot work are sent back before anything is built."""

import pytest

from cuda_harness.agents.gate import check_kernel, design_sha256, launched
from cuda_harness.agents.reply import ReplyFault
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan

IR = KernelIR.model_validate(
    {
        "name": "axpy",
        "dims": [{"name": "n", "value": 1000}],
        "tensors": [
            {"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
            {"name": "y", "role": "inout", "dtype": "float32", "shape": ["n"]},
        ],
        "scalars": [{"name": "a", "dtype": "float32", "value": 2.0}],
    }
)
SOURCE = """#include <cstdint>
#define TWICE(v) \\
  ((v) * 2)
extern "C" __global__ void axpy(const float* x, float* y, float a, int64_t n) {
  const int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""


def plan(**changes: object) -> LaunchPlan:
    step = {
        "launch": "axpy",
        "grid": ["cdiv(n, 256)"],
        "block": [256],
        "args": ["x", "y", "a", "n"],
        **changes,
    }
    return LaunchPlan.model_validate({"steps": [step]})


def kernel(source: str = SOURCE, **changes: object) -> Kernel:
    return Kernel(source=source, plan=plan(**changes))


def test_a_kernel_that_fits_passes() -> None:
    check_kernel(kernel(), IR, {})


@pytest.mark.parametrize(
    ("candidate", "said"),
    [
        (kernel(launch="axpi"), r"launches 'axpi', but kernel.cu has no such kernel \(it has: axpy\)"),
        (kernel(SOURCE.replace('extern "C" ', "")), 'must be declared extern "C"'),
        (kernel("__device__ int f() { return 1; }"), "it has: none"),
        (kernel(args=["x", "z", "a", "n"]), "'z'"),
        (kernel(args=["x", "y", "a"]), "axpy"),
        (kernel(grid=["cdiv(m, 256)"]), "m"),
    ],
)
def test_a_kernel_that_cannot_work_is_sent_back(candidate: Kernel, said: str) -> None:
    with pytest.raises(ReplyFault, match=said):
        check_kernel(candidate, IR, {})


def test_what_only_some_sizes_break_is_left_to_the_verifier() -> None:
    check_kernel(kernel(block=[2048]), IR, {})


def test_an_earlier_kernel_is_recognised_through_comments_and_spacing() -> None:
    again = (
        SOURCE.replace("  const", "\n\n\tconst").replace("if (i < n) ", "/* guard */ if(i<n)\n    ")
        + "// end\n"
    )
    with pytest.raises(ReplyFault, match="attempt 3 again"):
        check_kernel(kernel(again), IR, {1: "other", 3: design_sha256(kernel())})


@pytest.mark.parametrize(
    "other",
    [
        kernel(SOURCE.replace("i < n", "i <= n")),
        kernel(SOURCE.replace("((v) * 2)", "((v) * 3)")),
        kernel(SOURCE.replace("#define TWICE(v) \\\n", "#define TWICE\n")),
        kernel(block=[128]),
    ],
)
def test_a_changed_kernel_is_another(other: Kernel) -> None:
    assert design_sha256(other) != design_sha256(kernel())


def test_launches_inside_loops_are_seen_once() -> None:
    step = {"launch": "b", "grid": [1], "block": [1]}
    nested = {"repeat": {"var": "t", "count": 3}, "steps": [step, {"fill": "y", "value": 0}, step]}
    loop = {"while": {"flag": "f", "max": 9}, "steps": [nested]}
    whole = LaunchPlan.model_validate({"steps": [{"launch": "a", "grid": [1], "block": [1]}, loop]})
    assert launched(whole) == ["a", "b"]
