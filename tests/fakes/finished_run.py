"""The folder of a finished run with three attempts, one of them hostile, written by hand: no tool ran."""

import json
from pathlib import Path
from typing import Any

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import LaunchPlan
from cuda_harness.state.results import STAGES, Failure, StageResult, Timing, Verdict
from cuda_harness.tools.archive.run_folder import RunFolder

HOSTILE = "<script>alert('comment')</script><img src=http://evil.example/x onerror=alert(1)>"
IR = KernelIR.model_validate({
    "schema": KernelIR.KIND, "name": "scale", "summary": f"y = a * x {HOSTILE}",
    "dims": [{"name": "n", "value": 1000}],
    "tensors": [
        {"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
        {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"], "compare": {"mode": "close"}},
    ],
    "scalars": [{"name": "a", "dtype": "float32", "value": 2.0, "low": 0.5, "high": 3.0}],
    "steps": [{"id": "scale", "op": HOSTILE, "reads": ["x", "a"], "writes": ["y"], "formula": "y[i] = a * x[i]"}],
    "assumptions": [{"what": HOSTILE, "value": "2", "why": "not stated"}],
})  # fmt: skip
SOURCE = """// </code></pre>%s
extern "C" __global__ void scale(const float* x, float* y, int n, float a) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = %s;
}
"""
PLAN = LaunchPlan.model_validate({
    "schema": LaunchPlan.KIND, "tunables": {"BLOCK": [256]},
    "steps": [{"launch": "scale", "grid": ["cdiv(n, BLOCK)"], "block": ["BLOCK"], "args": ["x", "y", "n", "a"]}],
})  # fmt: skip
TIMING = Timing(
    median_us=12.5, ci95_us=(12.1, 13.0), floor_us=8.0, sol_fraction=0.64, baseline="first attempt",
    speedup_vs_baseline=1.6, clock_mhz=1700.0, samples=120, device="a GPU", notes=("cold cache",),
)  # fmt: skip


def verdict(outcome: str) -> Verdict:
    """A verdict whose ladder fails at `shapes` when rejected."""
    failed = outcome == "rejected"
    stages = []
    for name in STAGES:
        after = failed and STAGES.index(name) > STAGES.index("shapes")
        status = (
            "not_measured"
            if after or name == "sanitizer"
            else "failed"
            if failed and name == "shapes"
            else "passed"
        )
        why = (
            "a stage below failed"
            if after
            else "needs a GPU and compute-sanitizer"
            if name == "sanitizer"
            else "3 case(s)"
        )
        stages.append(StageResult(name=name, status=status, seconds=0.0 if after else 0.25, detail=why,
                                  covered={"dims": [{"n": 1}, {"n": 33}]} if name == "shapes" else {}))  # fmt: skip
    failure = Failure.model_validate({
        "stage": "shapes", "class": "mismatch", "message": f"y[3] is 1, expected 2 {HOSTILE}", "evidence": {"index": [3], "note": HOSTILE},
    })  # fmt: skip
    return Verdict(outcome=outcome, executor="cuda:0", target="sm_90a", stages=tuple(stages), seed=7,
                   failure=failure if failed else None, sha256={"kernel": "ab" * 32})  # fmt: skip


def finished_run(root: Path, *, timed: bool = True) -> Path:
    """Write the run below `root` and return its folder; `timed` says whether a GPU measured times."""
    folder = RunFolder.create(root, "20260101-000000-abcdef")
    judged = {1: verdict("rejected"), 2: verdict("accepted"), 3: verdict("accepted")}
    times = (
        {2: TIMING.model_copy(update={"median_us": 20.0, "ci95_us": (19.5, 20.5)}), 3: TIMING}
        if timed
        else {}
    )
    rows: list[dict[str, Any]] = []
    for number, (parent, strategy, body) in enumerate(
        [(None, "first", "x[i]"), (1, "repair", "a * x[i]"), (2, "vectorise", "a*x[i]")], start=1
    ):
        where = folder.attempt_dir(number)
        folder.write_text(f"{where}/kernel.cu", SOURCE % (HOSTILE, body))
        folder.write_text(f"{where}/plan.json", PLAN.to_json())
        folder.write_text(f"{where}/verdict.json", judged[number].to_json())
        time = times.get(number)
        folder.write_json(f"{where}/timing.json", time.model_dump(mode="json") if time else
                          {"status": "not_measured", "reason": "there is no GPU"})  # fmt: skip
        rows.append({"id": number, "parent": parent, "strategy": strategy,
                     "status": "verified" if judged[number].accepted else "rejected",
                     "failure_class": None if judged[number].accepted else "mismatch",
                     "median_us": time.median_us if time else None})  # fmt: skip
    folder.write_text("ir.json", IR.to_json())
    folder.write_text("request.txt", "scale a vector\n")
    folder.write_json("suite/proof.json", {
        "passed": True, "plants": [{"name": "zeros", "rejected": True}], "honest": {"rounded truth": True},
        "skipped": {"transposed": "one dimension"},
    })  # fmt: skip
    folder.write_json("manifest.json", {
        "schema": "cuda-harness/manifest/1", "run_id": folder.root.name, "created": "2026-01-01T00:00:00Z", "seed": 7,
        "settings": {"executor": "cuda", "out": "runs", "budget": {"max_calls": 60, "repairs": 2}}, "versions": {}, "gpu": None,
    })  # fmt: skip
    folder.write_json("result.json", {
        "schema": "cuda-harness/result/1", "run_id": folder.root.name, "run_dir": str(folder.root), "status": "verified",
        "request": f"Scale a vector by a. {HOSTILE}", "model": "scripted", "executor": "cuda:0", "target": "sm_90a",
        "kernel": {"path": "best/kernel.cu", "plan": "best/plan.json", "sha256": "cd" * 32},
        "verdict": json.loads(judged[3].to_json()),
        "timing": TIMING.model_dump(mode="json") if timed else None,
        "profile": {"rung": "cubin", "bound": "memory", "sentence": "it streams", "metrics": {"registers": 16.0}},
        "branches": [{
            "round": 1, "branch": "r1b0", "parent": 2, "strategy": "vectorise", "by": "rules", "why": f"memory bound {HOSTILE}",
            "expected": 1.5, "attempts": [3], "challenger": 3, "basis": "time", "ratio": 1.6, "ci95": [1.55, 1.66], "kept": True,
            "reason": "the interval clears the parent's",
        }] if timed else [],
        "attempts": rows, "assumptions": [a.model_dump(mode="json") for a in IR.assumptions],
        "stop": {"reason": "no_gain", "detail": "two rounds without a gain"},
        "usage": {"calls": 5, "input_tokens": None, "output_tokens": 40, "usd": None, "seconds": 61.5, "gpu_seconds": None},
        "versions": {"python": "3.11.7", "nvidia-cuda-nvrtc": None},
    })  # fmt: skip
    start, end = "2026-01-01T00:00:00+00:00", "2026-01-01T00:00:02+00:00"
    runs = [
        {"id": "a", "dotted_order": "a", "name": "coder", "run_type": "chain", "start_time": start, "end_time": end,
         "extra": {"metadata": {"langgraph_node": "coder"}}},
        {"id": "b", "parent_run_id": "a", "dotted_order": "a.b", "name": HOSTILE, "run_type": "llm", "start_time": start,
         "end_time": end, "outputs": {"usage_metadata": {"input_tokens": 30, "output_tokens": 9}}, "extra": {}},
    ]  # fmt: skip
    folder.write_text("trace.jsonl", "".join(json.dumps(r) + "\n" for r in runs))
    return folder.root
