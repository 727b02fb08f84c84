"""Our own suite: references clean in check mode, and three tasks through the whole bench on the CPU."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cuda_harness.graph.cli import app
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import LaunchPlan
from cuda_harness.tools.benchmarks.contain import contains
from cuda_harness.tools.benchmarks.grade import RTOL
from cuda_harness.tools.benchmarks.scripts import Data, make_data, official_verdict
from cuda_harness.tools.benchmarks.task import Task, read_tasks
from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.execute.protocol import Job, JobOk
from cuda_harness.tools.ir.program import PlanFault, expand
from cuda_harness.tools.toolchain.source import inspect

ROOT = Path(__file__).resolve().parents[3]
SUITE = ROOT / "examples" / "suite"
TASKS = read_tasks(SUITE)


@pytest.fixture(autouse=True)
def _needs_containment() -> None:
    if not contains():
        pytest.skip("needs Landlock and seccomp")


def reference_kernel(task: Task) -> tuple[str, KernelIR, LaunchPlan]:
    """Return the device part of bench.cu, and its one launch as a plan."""
    source, host = task.bench.split("// ---- host ----")
    axis = r"(dim3\([^)]*\)|\d+)"
    launch = re.search(rf"(\w+)<<<{axis}, {axis}>>>\((.+)\);", host)
    assert launch is not None
    name, grid, block, args = launch.groups()
    axes = [re.findall(r"\d+", text.removeprefix("dim3")) for text in (grid, block)]
    tensors = [{"name": t.name, "role": role, "dtype": t.dtype, "shape": list(t.shape)}
               for role, group in (("in", task.inputs), ("out", task.outputs)) for t in group]  # fmt: skip
    steps: list[dict[str, object]] = (
        [{"fill": task.outputs[0].name, "value": 0}] if "cudaMemset" in host else []
    )
    steps.append({"launch": name, "grid": axes[0], "block": axes[1], "args": args.split(", ")})
    ir = KernelIR.model_validate({"name": "bench", "tensors": tensors})
    return source, ir, LaunchPlan.model_validate({"steps": steps})


def drawn(task: Task, folder: Path) -> Data:
    data = make_data(task, folder, seed=None)
    assert isinstance(data, Data), data
    return data


@pytest.mark.corpus
@pytest.mark.parametrize("task", TASKS, ids=lambda t: t.task_name)
def test_references_are_right_and_clean_in_check_mode(
    task: Task, executor: CpuExecutor, tmp_path: Path
) -> None:
    source, ir, plan = reference_kernel(task)
    data = drawn(task, tmp_path / "gen")
    program = expand(
        ir,
        plan,
        dims={},
        scalars={},
        tunables=None,
        kernels=inspect(source).kernels,
        device=executor.device(),
    )
    assert not isinstance(program, PlanFault), program
    inputs = {t.name: np.frombuffer(data.inputs[t.path], dtype=np_dtype(t.dtype)) for t in task.inputs}
    done = executor.run(Job(source=source, program=program, calls=(inputs,), mode="check", deadline_s=60.0))
    assert isinstance(done, JobOk), done
    assert not any(done.calls[0].unwritten.values())
    outputs = {t.path: done.calls[0].arrays[t.name].tobytes() for t in task.outputs}
    (tmp_path / "compare").mkdir()
    assert official_verdict(task, tmp_path / "compare", data, outputs) == (True, "T")
    wrong = {
        path: np.roll(np.frombuffer(raw, dtype=np.uint8), 4).tobytes()[: len(raw)]
        for path, raw in outputs.items()
    }
    if len(next(iter(wrong.values()))) > 4:
        (tmp_path / "wrong").mkdir()
        assert official_verdict(task, tmp_path / "wrong", data, wrong)[0] is False
    assert RTOL <= 1e-3


def bench(out: Path, *extra: str) -> dict[str, object]:
    arguments = ["bench", "suite", "--out", str(out), "--model", "offline", "--executor", "cpu", "--ladder-seconds", "300",
                 "--seed", "7", "--json", *extra]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.slow
def test_three_tasks_from_words_to_a_table(tmp_path: Path) -> None:
    out = tmp_path / "results"
    document = bench(out, "--ids", "1,6,11", "--level", "3")
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    by_kind = {r["kind"]: r for r in rows}
    assert set(by_kind) == {"ReLU", "Transpose", "Matrix_Vector"}
    for kind in ("ReLU", "Transpose"):
        r = by_kind[kind]
        assert (r["status"], r["comp"], r["func"], r["ours"], r["outcome"]) == (
            "verified",
            True,
            True,
            True,
            "accepted",
        ), r
        assert r["graded_by"] == "cpu plan"
        text = (out / r["program"]).read_text()
        assert "int main(" in text
        assert "VERIFIED on cpu" in text
        assert (r["speed_vs_reference"], r["score"], r["sol_fraction"]) == (None, None, None)
    refused = by_kind["Matrix_Vector"]
    assert (refused["status"], refused["comp"], refused["func"]) == ("refused", False, False)
    overall = document["overall"]
    assert isinstance(overall, dict)
    assert overall["func_percent"] == pytest.approx(200 / 3)
    assert overall["refused"] == 1
    for name in ("summary.md", "summary.html", "summary.json", "bench.json"):
        assert (out / name).is_file()
    answers = [json.loads(line) for line in next((out / "official").glob("*.jsonl")).read_text().splitlines()]
    assert [a["id"] for a in answers] == [1, 6, 11]
    assert answers[2]["code1"] is None

    runs = sorted(p.parent for p in (out / "runs").glob("*/*/manifest.json"))
    assert len(runs) == 3
    lines = (out / "results.jsonl").read_text().splitlines()
    (out / "results.jsonl").write_text("\n".join(lines[:2]) + "\n" + lines[2][:40])
    again = bench(out, "--ids", "1,6,11", "--level", "3")
    assert again["overall"]["results"] == 3  # type: ignore[index]
    assert (
        sorted(p.parent for p in (out / "runs").glob("*/*/manifest.json")) == runs
    )  # it went on with its run


def test_a_spent_budget_leaves_the_rest_for_later(tmp_path: Path) -> None:
    arguments = ["bench", "suite", "--out", str(tmp_path / "r"), "--model", "offline", "--executor", "cpu", "--ids", "11",
                 "--level", "3", "--samples", "3", "--max-calls", "1"]  # fmt: skip
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert "2 result(s) not run: the budget is spent" in done.output
    again = CliRunner().invoke(app, arguments)  # what was spent before counts
    assert again.exit_code == 1
    assert len((tmp_path / "r" / "results.jsonl").read_text().splitlines()) == 1


def test_the_one_shot_baseline_counts_what_has_no_program(tmp_path: Path) -> None:
    out = tmp_path / "baseline"
    document = bench(out, "--ids", "1", "--level", "1", "--baseline", "one-shot")
    (row,) = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert (row["status"], row["func"], row["calls"]) == ("refused", False, 1)
    assert document["model"] == "offline (one-shot)"


def test_answers_of_a_file_are_further_words_of_the_prompt(tmp_path: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"id": 11, "level": 3, "answers": ["in any order", "eps = 1e-5"]}\n')
    out = tmp_path / "r"
    document = bench(out, "--ids", "11", "--level", "3", "--clarify", str(answers))  # refused at once
    (row,) = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert row["clarified"] is True
    told = (out / row["run"] / "request.txt").read_text()
    assert told.startswith(
        "Compute the Matrix_Vector kernel on a GPU.\n- in any order\n- eps = 1e-5\n\nInputs:\n"
    )
    assert document["overall"]["clarified"] == 1  # type: ignore[index]
    assert document["clarified"] is True
