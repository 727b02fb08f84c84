"""First kernels of the built-in templates against their branches, each with its tunables, on a GPU.

`python -m tests.gpu.branches OUT [SECONDS] [NAME ...]`: OUT/branches.json and .md.
"""

import itertools
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from cuda_harness.agents.llm.offline.lowering.schedule import PLAIN, branch, lower
from cuda_harness.agents.llm.offline.lowering.style import style_of
from cuda_harness.agents.llm.offline.planning.planner import plan
from cuda_harness.state.ir import KernelIR, Tensor
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.tools.execute.cuda.executor import CudaExecutor
from cuda_harness.tools.ir.placement import expand_on
from cuda_harness.tools.ir.program import PlanFault
from cuda_harness.tools.profile.ceilings import Ceilings, ceilings
from cuda_harness.tools.profile.floor import floor
from cuda_harness.tools.profile.session import Contender, Session, measure
from cuda_harness.tools.toolchain.source import inspect

REQUESTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "copy": ("copy 128 MiB of floats", ("vector_loads", "instruction_parallelism", "vector_loads,persistent_grid")),
    "axpy": ("axpy of 2^25 elements", ("vector_loads", "instruction_parallelism", "vector_loads,persistent_grid")),
    "relu": ("relu of 2^25 floats", ("vector_loads", "instruction_parallelism", "vector_loads,persistent_grid")),
    "transpose": ("transpose an 8192 x 4096 matrix of floats", ("transposing_through_shared", "instruction_parallelism")),
    "softmax": ("softmax of each row, 32768 x 1024", ("online_one_pass", "online_one_pass,persistent_grid")),
    "softmax_long": ("softmax of each row, 4096 x 8192", ("online_one_pass",)),
    "row_sum": ("sum of each row, 8192 x 4096", ("vector_loads", "vector_loads,persistent_grid")),
    "layer_norm": ("layer norm of an 8192 x 4096 matrix", ("online_one_pass",)),
    "total": ("sum of 2^25 floats", ("two_stage_reduction", "instruction_parallelism")),
    "column_sum": ("sum of each column, 8192 x 4096", ("vector_loads",)),
    "matmul": ("matmul of 2048 x 2048 matrices", ("register_blocking",)),
    "matmul_half": ("matmul of 4096 x 4096 fp16 matrices", ("register_blocking", "tensor_cores")),
    "batch_norm": ("batch normalization at inference on a 64x64x56x56 tensor", ("vector_loads", "instruction_parallelism")),
    "cross_entropy": ("cross entropy loss for logits of shape (32768, 1024)", ("online_one_pass",)),
    "prefix_sum": ("cumulative sum of 2^25 floats", ("lookback_scan",)),
    "matvec": ("matrix vector product, 8192 x 4096", ("vector_loads",)),
}  # fmt: skip
"""What is asked, and the branches: ideas one after the other."""
MOST = 10
"""Configurations of one kernel."""


def written(ir: KernelIR, ideas: str) -> Kernel:
    """Return the first kernel, or the branch by the ideas."""
    source, data = lower(ir)
    style = PLAIN
    for idea in filter(None, ideas.split(",")):
        source, data = branch(ir, idea, style)
        style = style_of(data["notes"])
    return Kernel(source=source, plan=LaunchPlan.model_validate(data))


def configurations(kernel: Kernel) -> list[dict[str, int]]:
    """Return the default and a sample of the others."""
    names = list(kernel.plan.tunables)
    every = [
        dict(zip(names, values, strict=True)) for values in itertools.product(*kernel.plan.tunables.values())
    ]
    return [every[0], *random.Random(5).sample(every[1:], min(MOST - 1, len(every) - 1))]


def drawn(rng: np.random.Generator, tensor: Tensor, dims: dict[str, int]) -> Any:
    """Return numbers of (0, 1), or indices that every table has."""
    count = int(np.prod(tensor.dims(dims)))
    if tensor.dtype.startswith("int"):
        return rng.integers(0, min(dims.values()), count).astype(tensor.dtype)
    return rng.random(count, dtype=np.float32).astype(tensor.dtype)


def compare(name: str, gpu: CudaExecutor, limits: Ceilings) -> dict[str, Any]:
    """Return the best time of each kernel of a request, and whether its outputs agree with the first kernel's."""
    request, branches = REQUESTS[name]
    ir = KernelIR.model_validate(plan(request))
    dims, arch = ir.target_dims, gpu.facts()["arch"]
    contenders: list[Contender] = []
    of: dict[str, tuple[str, dict[str, int]]] = {}
    for ideas in ("", *branches):
        kernel = written(ir, ideas)
        for config in configurations(kernel):
            program = expand_on(
                gpu, kernel, ir, dims=dims, scalars={}, kernels=inspect(kernel.source).kernels, arch=arch, tunables=config
            )  # fmt: skip
            if isinstance(program, PlanFault):
                continue
            label = f"{len(contenders)}"
            of[label] = (ideas or "first", config)
            contenders.append(Contender(label, kernel.source, program))
    rng = np.random.default_rng(3)
    contents = [{t.name: drawn(rng, t, dims) for t in ir.inputs}] * 2
    done = measure(gpu, contenders, contents, arch=arch, seed=3, least=12, most=40, limit_s=10.0, truths=[0])
    if not isinstance(done, Session):
        return {"name": name, "error": str(done)[:400]}
    bound = floor(ir, dims, limits)
    best: dict[str, dict[str, Any]] = {}
    first = next((t.outputs[0][1] for t in done.timed if t.outputs and of[t.name][0] == "first"), None)
    for timed in done.timed:
        ideas, config = of[timed.name]
        agree = None
        if first is not None and timed.outputs:
            agree = all(
                np.allclose(first[n], timed.outputs[0][1][n], rtol=1e-3, atol=1e-3) for n in first
            )  # fmt: skip
        row = {"us": round(timed.median.value, 2), "of_floor": round(bound.us / timed.median.value, 3), "config": config, "agree": agree}  # fmt: skip
        if ideas not in best or row["us"] < best[ideas]["us"]:
            best[ideas] = {**row, "default_us": best.get(ideas, row).get("default_us", row["us"])}
    return {"name": name, "floor_us": round(bound.us, 2), "kernels": best}


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + float(sys.argv[2] if len(sys.argv) > 2 else 300)
    gpu = CudaExecutor(0)
    limits = ceilings(gpu)
    assert isinstance(limits, Ceilings), limits
    rows: list[dict[str, Any]] = []
    lines = [f"Ceilings: {limits.model_dump_json()}", "", "| request | kernel | us | of the floor | default us | tunables | agrees |", "|---|---|---|---|---|---|---|"]  # fmt: skip
    for name in sys.argv[3:] or REQUESTS:
        if time.monotonic() > until:
            break
        try:
            row = compare(name, gpu, limits)
        except Exception as exc:  # noqa: BLE001 - the other requests are still worth their times
            row = {"name": name, "error": f"{type(exc).__name__}: {exc}"[:400]}
        rows.append(row)
        print(json.dumps(row), flush=True)
        for ideas, found in row.get("kernels", {}).items():
            lines.append(f"| {name} | {ideas} | {found['us']} | {found['of_floor']} | {found['default_us']} | {found['config']} | {found['agree']} |")  # fmt: skip
        (out / "branches.json").write_text(json.dumps(rows, indent=1))
        (out / "branches.md").write_text("\n".join(lines) + "\n")
    gpu.close()


if __name__ == "__main__":
    main()
