"""What compute-sanitizer says of a benchmark's own program, read from logs as it writes them."""

from pathlib import Path

import pytest

from cuda_harness.tools.benchmarks.reference import sanitizer_faults
from cuda_harness.tools.benchmarks.scripts import Data

RACE = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at kernel(float *, const float *, int)+0x150 in bench.cu:5
=========     and Read access at kernel(float *, const float *, int)+0x1a0 in bench.cu:6 [4096 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
STUB = """#!/bin/sh
while [ $# -gt 1 ]; do
  case $1 in --tool) tool=$2 ;; --log-file) log=$2 ;; esac
  shift
done
test -f data/x.bin || exit 9
cp "$(dirname "$0")/$tool.txt" "$log"
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of the sanitizer's name that writes the log it was given for each tool."""
    path = tmp_path / "compute-sanitizer"
    path.write_text(STUB)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


@pytest.mark.parametrize(
    ("memcheck", "racecheck", "found"),
    [
        (CLEAN, RACE, ["bench.cu under racecheck: "]),
        (CLEAN, CLEAN, []),
        (CLEAN, "", []),
    ],
)
def test_a_race_of_the_reference_is_told(
    installed: Path, memcheck: str, racecheck: str, found: list[str]
) -> None:
    (installed / "memcheck.txt").write_text(memcheck)
    (installed / "racecheck.txt").write_text(racecheck)
    told = sanitizer_faults(installed / "bench", Data({"data/x.bin": b"1234"}, {}), None)
    assert len(told) == len(found)
    for clause, begins in zip(told, found, strict=True):
        assert clause.startswith(begins)
        assert "Race reported between Write access" in clause
        assert "bench.cu:5" in clause


def test_without_the_sanitizer_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sanitizer_faults(tmp_path / "bench", Data({}, {}), None) == []
