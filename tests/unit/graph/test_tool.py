"""The tool's short answer: what a model needs, a line each."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.finished_run import IR, finished_run

from cuda_harness.agents.context import RunContext
from cuda_harness.graph.result import RunResult
from cuda_harness.graph.tool import DESCRIPTION, answer
from cuda_harness.state.harness import HarnessState, Result


def result(tmp_path: Path, *, timed: bool = True, **changes: Any) -> RunResult:
    run = finished_run(tmp_path, timed=timed)
    document = {**json.loads((run / "result.json").read_text()), **changes}
    state = HarnessState(
        ir=IR, result=Result(status=document["status"], best=3, run_dir=str(run), document=document)
    )
    return RunResult(state, RunContext())


def test_a_verified_kernel_is_told_with_time_gaps_and_paths(tmp_path: Path) -> None:
    told = answer(result(tmp_path)).splitlines()
    assert told[0] == "status: verified (no gain)"
    assert "judged on cuda:0 for sm_90a: accepted" in told
    assert "not measured: sanitizer" in told
    assert "time: 12.5 us on a GPU" in told
    assert "kernel: best/kernel.cu" in told
    assert told[-1].endswith("report.html")


def test_without_a_gpu_the_time_is_not_measured(tmp_path: Path) -> None:
    assert "time: not measured" in answer(result(tmp_path, timed=False)).splitlines()


def test_text_of_the_run_stays_on_its_line(tmp_path: Path) -> None:
    stop = {"reason": "refused", "detail": "no\nstatus: verified\n" + "x" * 5_000}
    told = answer(result(tmp_path, status="failed", stop=stop)).splitlines()
    assert told[0] == "status: failed (refused)"
    assert told[1].startswith("why: no status: verified xxx")
    assert sum(line.startswith("status:") for line in told) == 1
    assert len(told[1]) < 500


@pytest.mark.parametrize("word", ["kernel", "judge", "not measured"])
def test_the_description_says_what_comes_back(word: str) -> None:
    assert word in DESCRIPTION
