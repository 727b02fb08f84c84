"""Requests in many wordings, planned, synthesised, lowered and judged by the whole ladder on the CPU at small sizes."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cuda_harness.agents.gate import check_kernel
from cuda_harness.agents.llm.offline.lowering.schedule import DESIGNS, lower
from cuda_harness.agents.llm.offline.planning.planner import plan
from cuda_harness.agents.llm.offline.truth.domains import input_specs
from cuda_harness.agents.llm.offline.truth.loops import loop_reference
from cuda_harness.agents.llm.offline.truth.vectorised import vectorised_reference
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.suite import Inputs
from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.ir.check import check_ir
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.toolchain.nvrtc import Compiler
from cuda_harness.tools.verify.ladder import doubt_suite, judge

HERE = Path(__file__).parent
REQUESTS = [r for r in (HERE / "requests.txt").read_text().splitlines() if r and not r.startswith("#")]
LARGEST = {1: 20_000, 2: 128, 3: 20, 4: 8}
"""Target size of a dim by the number of dims: the ladder's other stages choose sizes of their own."""
PLAINER = (
    "row-wise softmax, fp16, batch of 256 rows of length 2048", "mean and variance of each row", "cumulative maximum of a vector",
    "Multiply a 300x200 matrix with a 200x100 matrix and apply ReLU to the result.", "transpose each matrix in a batch of 8 matrices of 64 x 48",
    "Find the index of the smallest value in each row of a 128 x 4096 array.", "y[i] = a*x[i] + y[i]", "int32 sum of 10^6 elements",
    "cross-entropy loss for logits of shape (1024, 100) with integer class labels",
)  # fmt: skip


@dataclass
class Bench:
    executor: CpuExecutor
    references: ReferenceRunner
    compiler: Compiler


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    made = Bench(CpuExecutor(), ReferenceRunner(), Compiler())
    yield made
    made.compiler.close()
    made.references.close()
    made.executor.close()


@cache
def planned(request: str) -> KernelIR:
    data: dict[str, Any] = plan(request)
    for dim in data["dims"]:
        dim["value"] = min(dim["value"], LARGEST.get(len(data["dims"]), 4))
    return KernelIR.model_validate(data)


def suite_of(ir: KernelIR, bench: Bench) -> Suite:
    specs = Inputs.from_json(input_specs(ir), where="inputs.json")
    return Suite(
        ir, vectorised_reference(ir), runner=bench.references, seed=11, specs=specs, loops=loop_reference(ir)
    )


def judged(ir: KernelIR, suite: Suite, bench: Bench, design: int) -> str:
    source, data = lower(ir, design)
    kernel = Kernel(source=source, plan=LaunchPlan.model_validate(data))
    check_kernel(kernel, ir, {})
    verdict = judge(
        kernel, ir, suite, executor=bench.executor, compiler=bench.compiler, target="sm_90a", seed=3, max_seconds=180
    )  # fmt: skip
    return verdict.outcome if verdict.failure is None else f"{verdict.outcome}: {verdict.failure.message}"


@pytest.mark.parametrize("request_text", REQUESTS)
def test_a_request_in_words_becomes_a_verified_kernel(request_text: str, bench: Bench) -> None:
    ir = planned(request_text)
    assert check_ir(ir) == []
    suite = suite_of(ir, bench)
    assert suite.quorum() is None, "the two references disagree"
    assert doubt_suite(suite, ()) is None, "the suite cannot tell right from wrong"
    assert judged(ir, suite, bench, 0) == "accepted"


@pytest.mark.parametrize("design", range(1, len(DESIGNS)))
@pytest.mark.parametrize("request_text", PLAINER)
def test_the_designs_kept_for_repair_are_right_as_well(request_text: str, design: int, bench: Bench) -> None:
    ir = planned(request_text)
    assert judged(ir, suite_of(ir, bench), bench, design) == "accepted"
