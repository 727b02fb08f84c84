"""The example platform runs as its README says, on the built-in templates."""

import subprocess
import sys
from pathlib import Path

import pytest

from cuda_harness.tools.trace.recorder import read_trace

ROOT = Path(__file__).resolve().parents[2]
WISH = "y = 2*x for a float32 vector x of 1000 elements"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["node", "tool"])
def test_the_platform_has_a_kernel_written(way: str, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-W",
        "error",
        str(ROOT / "examples/platform/desk.py"),
        way,
        WISH,
        "--out",
        str(tmp_path),
    ]

    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    (run,) = (p for p in tmp_path.iterdir() if (p / "result.json").is_file())
    assert str(run) in done.stdout
    assert "verified" in done.stdout
    assert {"verifier", "ask_coder"} <= {r["name"] for r in read_trace(run)}
    if way == "node":
        assert f"Ada asks: {WISH}" in done.stdout
        assert "kernel judged" in done.stdout
