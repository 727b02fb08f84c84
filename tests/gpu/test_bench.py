"""Three tasks of our suite through the bench on a GPU: the program where nvcc is, else the plan."""

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cuda_harness.graph.cli import app

pytestmark = pytest.mark.gpu


def test_three_tasks_are_graded_on_the_gpu(tmp_path: Path) -> None:
    arguments = ["bench", "suite", "--out", str(tmp_path), "--model", "offline", "--executor", "cuda:0", "--ids", "1,4,5",
                 "--level", "3", "--rounds", "0", "--ladder-seconds", "60", "--json"]  # fmt: skip
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
