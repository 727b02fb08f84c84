"""`cuda-harness profile` on a machine without a GPU: the verdict, the reason, the remedy."""

import json
import shutil
from pathlib import Path

import pytest
from tests.fakes.finished_run import finished_run
from typer.testing import CliRunner

from cuda_harness.graph.cli import app

LIBRARY = Path(__file__).resolve().parents[2] / "examples" / "kernels"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A copy kernel whose target is small."""
    folder = tmp_path / "copy"
    shutil.copytree(LIBRARY / "copy", folder)
    ir = json.loads((folder / "ir.json").read_text())
    ir["dims"][0]["value"] = 5000
    (folder / "ir.json").write_text(json.dumps(ir))
    return folder


def test_the_verdict_stands_and_time_needs_a_gpu(small: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app,
        [
            "profile",
            str(small),
            "--executor",
            "cpu",
            "--seed",
            "3",
            "--json",
            "--out",
            str(tmp_path / "r.json"),
        ],
    )
    assert done.exit_code == 5, done.output
    document = json.loads(done.stdout)
    assert document["schema"] == "cuda-harness/profile/1"
    assert document["verdict"]["outcome"] == "accepted"
    assert document["timing"]["status"] == "not_measured"
    assert "CPU executor" in document["timing"]["reason"]
    assert document["profile"]["rung"] == "cubin"
    assert document["profile"]["bound"] == "unknown"
    assert "--executor cuda" in done.stderr
    assert json.loads((tmp_path / "r.json").read_text()) == document


def test_a_wrong_kernel_is_rejected_whatever_the_machine(small: Path) -> None:
    source = (small / "kernel.cu").read_text().replace("y[j] = x[j]", "y[j] = x[j] + 1.0f")
    (small / "kernel.cu").write_text(source)
    done = CliRunner().invoke(app, ["profile", str(small), "--executor", "cpu", "--seed", "3"])
    assert done.exit_code == 1, done.output
    assert "rejected on cpu" in done.stdout


def test_two_problems_are_not_compared(small: Path) -> None:
    done = CliRunner().invoke(
        app, ["profile", str(small), "--against", str(LIBRARY / "axpy"), "--executor", "cpu"]
    )
    assert done.exit_code == 2
    assert "differ in" in done.stderr


def test_a_run_without_times_has_nothing_to_draw(tmp_path: Path) -> None:
    run = finished_run(tmp_path, timed=False)
    done = CliRunner().invoke(app, ["plot", str(run)])
    assert done.exit_code == 2
    assert "no attempt of this run has a time" in done.stderr
    assert not (run / "plots").exists()


def test_a_timed_run_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib (extra `plots`) is not installed")
    run = finished_run(tmp_path)
    done = CliRunner().invoke(app, ["plot", str(run), "--json"])
    assert done.exit_code == 0, done.output
    paths = json.loads(done.stdout)["paths"]
    assert paths
    assert all(Path(p).read_text().lstrip().startswith("<?xml") for p in paths)
