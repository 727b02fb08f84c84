"""The built-in templates without the graph: planned, synthesised, lowered and judged at small sizes."""

from functools import cache
from typing import Any

from cuda_harness.agents.gate import check_kernel
from cuda_harness.agents.llm.offline.planning.planner import plan
from cuda_harness.agents.llm.offline.truth.domains import input_specs
from cuda_harness.agents.llm.offline.truth.loops import loop_reference
from cuda_harness.agents.llm.offline.truth.vectorised import vectorised_reference
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.suite import Inputs
from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.toolchain.nvrtc import Compiler
from cuda_harness.tools.verify.ladder import judge

LARGEST = {1: 20_000, 2: 128, 3: 20, 4: 8}
"""Target size of a dim by the number of dims: the ladder's other stages choose sizes of their own."""


@cache
def planned(request: str) -> KernelIR:
    """Return the IR of a request, its target small enough for a quick test."""
    data: dict[str, Any] = plan(request)
    for dim in data["dims"]:
        dim["value"] = min(dim["value"], LARGEST.get(len(data["dims"]), 4))
    return KernelIR.model_validate(data)


def suite_of(ir: KernelIR, references: ReferenceRunner) -> Suite:
    """Return the suite of the templates' two references."""
    specs = Inputs.from_json(input_specs(ir), where="inputs.json")
    return Suite(
        ir, vectorised_reference(ir), runner=references, seed=11, specs=specs, loops=loop_reference(ir)
    )


def judged(
    ir: KernelIR,
    suite: Suite,
    written: tuple[str, dict[str, Any]],
    *,
    executor: CpuExecutor,
    compiler: Compiler,
) -> str:
    """Return the outcome of a kernel that the templates wrote, with the failure's message if there is one."""
    source, data = written
    kernel = Kernel(source=source, plan=LaunchPlan.model_validate(data))
    check_kernel(kernel, ir, {})
    verdict = judge(
        kernel, ir, suite, executor=executor, compiler=compiler, target="sm_90a", seed=3, max_seconds=180
    )  # fmt: skip
    return verdict.outcome if verdict.failure is None else f"{verdict.outcome}: {verdict.failure.message}"
