"""Requests in many wordings, planned, synthesised, lowered and judged by the whole ladder on the CPU at small sizes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.offline import judged, planned, suite_of

from cuda_harness.agents.llm.offline.lowering.schedule import DESIGNS, PLAIN, branch, lower
from cuda_harness.agents.llm.offline.lowering.style import style_of
from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.ir.check import check_ir
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.toolchain.nvrtc import Compiler
from cuda_harness.tools.verify.ladder import doubt_suite

HERE = Path(__file__).parent
REQUESTS = [r for r in (HERE / "requests.txt").read_text().splitlines() if r and not r.startswith("#")]
PLAINER = (
    "row-wise softmax, fp16, batch of 256 rows of length 2048", "mean and variance of each row", "cumulative maximum of a vector",
    "Multiply a 300x200 matrix with a 200x100 matrix and apply ReLU to the result.", "transpose each matrix in a batch of 8 matrices of 64 x 48",
    "Find the index of the smallest value in each row of a 128 x 4096 array.", "y[i] = a*x[i] + y[i]", "int32 sum of 10^6 elements",
    "cross-entropy loss for logits of shape (1024, 100) with integer class labels",
)  # fmt: skip
BRANCHES = (
    ("y[i] = a*x[i] + y[i]", "vector_loads,persistent_grid"),
    ("add two float64 matrices", "coalescing,launch_bounds"),
    ("row-wise softmax of a 100 x 128 matrix", "online_one_pass"),
    ("layer norm of a 64 x 33 fp16 matrix", "warp_shuffle_reduction,persistent_grid"),
    ("cross-entropy loss for logits of shape (64, 96) with integer class labels", "online_one_pass"),
    ("mean of each column, 77 x 33 float16 matrix", "two_stage_reduction"),
    ("Transpose a 100 by 70 matrix of floats", "transposing_through_shared"),
    ("y[i,j] = x[j,i] + 2*x[i,j], x is 65 x 65", "shared_tiling,launch_bounds"),
    ("index of the largest value of a vector", "two_stage_reduction"),
    ("exclusive prefix sum of 10000 integers", "lookback_scan"),
    ("add a bias vector to each row of a 64 x 33 matrix, then relu", "vector_loads,persistent_grid"),
    ("matmul of 20 x 16 and 16 x 24 fp16 matrices with relu", "tensor_cores"),
    ("C = A @ B^T for 100 x 60 and 80 x 60 matrices", "register_blocking"),
    ("batched matmul, batch size 3, 16x32 times 32x24, float16", "double_buffering"),
)  # fmt: skip
"""Requests, and the ideas of a branch one after the other."""


pytestmark = pytest.mark.corpus(6)


@pytest.fixture(scope="module")
def references() -> Iterator[ReferenceRunner]:
    made = ReferenceRunner()
    yield made
    made.close()


@pytest.mark.parametrize("request_text", REQUESTS)
def test_a_request_in_words_becomes_a_verified_kernel(
    request_text: str, references: ReferenceRunner, executor: CpuExecutor, compiler: Compiler
) -> None:
    ir = planned(request_text)
    assert check_ir(ir) == []
    suite = suite_of(ir, references)
    assert suite.quorum() is None, "the two references disagree"
    assert doubt_suite(suite, ()) is None, "the suite cannot tell right from wrong"
    assert judged(ir, suite, lower(ir), executor=executor, compiler=compiler) == "accepted"


@pytest.mark.parametrize("design", range(1, len(DESIGNS)))
@pytest.mark.parametrize("request_text", PLAINER)
def test_the_designs_kept_for_repair_are_right_as_well(
    request_text: str, design: int, references: ReferenceRunner, executor: CpuExecutor, compiler: Compiler
) -> None:
    ir = planned(request_text)
    suite = suite_of(ir, references)
    assert judged(ir, suite, lower(ir, design), executor=executor, compiler=compiler) == "accepted"


@pytest.mark.parametrize(("request_text", "ideas"), BRANCHES)
def test_a_branch_is_another_kernel_and_right(
    request_text: str, ideas: str, references: ReferenceRunner, executor: CpuExecutor, compiler: Compiler
) -> None:
    ir = planned(request_text)
    first, _ = lower(ir)
    source, data, style = first, {}, PLAIN
    for idea in ideas.split(","):
        source, data = branch(ir, idea, style)
        style = style_of(data["notes"])
    assert source != first
    assert any(len(values) > 1 for values in data["tunables"].values())
    assert (
        judged(ir, suite_of(ir, references), (source, data), executor=executor, compiler=compiler)
        == "accepted"
    )
