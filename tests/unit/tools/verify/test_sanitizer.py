"""The sanitizer stage: logs become typed findings, a missing tool is no verdict, one that hangs is ended."""

import contextlib
import os
import stat
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.adversarial.corpus import without_sanitizer
from tests.unit.tools.verify.test_ladder import (
    COMPILED,
    ScriptedExecutor,
    status,
    verdict,
)

from cuda_harness.state.results import CompileRejected, CompileResult
from cuda_harness.tools.execute.cuda.lock import LockTimeout
from cuda_harness.tools.execute.protocol import Job
from cuda_harness.tools.verify.sanitizer import RunsFiles
from cuda_harness.tools.verify.sanitizer_log import Tool, parse_log

BOUNDS = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at k(const float *, float *, float, int)+0xc0 in /home/someone/kernel.cu:3
=========     by thread (127,0,0) in block (1,0,0)
=========     Access to 0x7f4322a00a00 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f4322a00600 of size 1024 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame:  [0x4cd39] in cydriver.cpython-312-x86_64-linux-gnu.so
=========
========= ERROR SUMMARY: 1 error
"""
RACE = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at k+0x110 in kernel.cu:7
=========     and Read access at k+0x120 in kernel.cu:9 [1024 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
UNWRITTEN = """========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at k+0xa0 in kernel.cu:3
=========     by thread (96,0,0) in block (0,0,0)
=========     Address 0x7f5a4ea00980
=========     Saved host backtrace up to driver entry point at kernel launch time
========= ERROR SUMMARY: 1 error
"""
BARRIER = """========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in warp.
=========     at k+0x60 in kernel.cu:3
=========     by thread (32,0,0) in block (0,0,0)
========= ERROR SUMMARY: 2 errors
"""
ALIGNMENT = """========= Invalid __global__ read of size 8 bytes
=========     at k+0x60 in kernel.cu:4
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f5a4ea00984 is misaligned
========= ERROR SUMMARY: 1 error
"""
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
HOST = """========= Program hit CUDA_ERROR_NOT_FOUND (error 500) due to "named symbol not found" on CUDA API call to cuModuleGetGlobal.
=========     Saved host backtrace up to driver entry point at error
=========         Host Frame:  [0x4cd39] in libcuda.so.1
========= ERROR SUMMARY: 1 error
"""
LOGS = [
    ("memcheck", BOUNDS, "out_of_bounds", 3, "line 3: memcheck: Invalid __global__ write of size 4 bytes"),
    ("racecheck", RACE, "data_race", 7, "Race reported between Write access at k in kernel.cu:7"),
    ("initcheck", UNWRITTEN, "uninitialized_read", 3, "Uninitialized __global__ memory read"),
    ("synccheck", BARRIER, "barrier_divergence", 3, "Divergent thread(s) in warp"),
    ("memcheck", ALIGNMENT, "misaligned", 4, "is misaligned"),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "text", "class_", "line", "words"), LOGS)
def test_a_complaint_becomes_a_finding(tool: Tool, text: str, class_: str, line: int, words: str) -> None:
    report = parse_log(tool, text)

    (found,) = report.findings
    assert (found.class_, found.line, found.kernel, found.is_warning) == (class_, line, "k", False)
    assert words in found.message
    assert "0x" not in found.message
    assert "someone" not in found.message
    assert "Host Frame" not in found.message
    assert report.summary is not None


def test_block_and_thread_are_read() -> None:
    (found,) = parse_log("memcheck", BOUNDS).findings

    assert (found.block, found.thread) == ((1, 0, 0), (127, 0, 0))
    assert "1 bytes after the nearest allocation of size 1024 bytes" in found.message


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        (CLEAN, 0),
        (HOST, 1),
        ("", None),
        ("========= Error: Device not supported\n", None),
        ("noise\0\n" * 9, None),
    ],
)
def test_what_is_no_complaint_about_device_code_is_none(text: str, summary: int | None) -> None:
    report = parse_log("memcheck", text)

    assert (report.findings, report.summary) == ((), summary)


def test_a_hazard_that_is_only_a_warning_is_told_apart() -> None:
    (found,) = parse_log("racecheck", RACE.replace("Error: Race", "Warning: Race")).findings

    assert found.is_warning


class FileExecutor(ScriptedExecutor):
    """A scripted executor whose jobs can be written to a file; what watches them here is a script of this test."""

    folder: str = ""
    compiles: CompileResult = COMPILED

    def write_job(self, job: Job, path: Path) -> CompileResult:
        path.write_text(f"{job.own_allocations} {job.unpoisoned}")
        return self.compiles

    def once_command(self, path: Path, answer: Path | None = None) -> list[str]:
        return ["target", str(path)]

    def shared(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()

    def once_environment(self) -> dict[str, str]:
        return {"PATH": self.folder}


def watched(folder: Path, body: str, *, compiles: CompileResult = COMPILED, **options: Any) -> Any:
    """Return the verdict where `compute-sanitizer` is a script with `body`; it has `tool`, `log` and `job`."""
    script = folder / "compute-sanitizer"
    script.write_text(
        f"#!{sys.executable}\nimport sys, time\na = sys.argv\ntool = a[a.index('--tool') + 1]\n"
        f"log = open(a[a.index('--log-file') + 1], 'w')\njob = open(a[-1]).read()\n{body}\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    executor = FileExecutor()
    executor.folder, executor.compiles = str(folder), compiles
    return verdict(executor, **options)


def test_an_executor_without_a_gpu_is_not_watched() -> None:
    found = verdict()

    assert found.accepted
    assert status(found, "sanitizer") == "not_measured"
    assert "watches a GPU" in found.stage("sanitizer").detail  # type: ignore[union-attr]


def test_a_missing_tool_is_not_measured(tmp_path: Path) -> None:
    executor = FileExecutor()
    executor.folder = str(tmp_path)
    found = verdict(executor)

    assert found.accepted
    assert found.stage("sanitizer").detail == "compute-sanitizer is not installed"  # type: ignore[union-attr]


def test_four_clean_tools_pass(tmp_path: Path) -> None:
    found = watched(tmp_path, f"assert job == f\"True {{tool == 'initcheck'}}\"\nlog.write({CLEAN!r})")

    assert found.accepted
    assert status(found, "sanitizer") == "passed", found.stage("sanitizer")
    assert found.stage("sanitizer").detail.startswith("memcheck, racecheck, initcheck, synccheck clean")
    assert set(found.stage("sanitizer").covered["tools"]) == {
        "memcheck",
        "racecheck",
        "initcheck",
        "synccheck",
    }


def test_a_fault_that_only_one_tool_sees_rejects(tmp_path: Path) -> None:
    found = watched(
        tmp_path, f"log.write({RACE!r} if tool == 'racecheck' else {CLEAN!r})\nlog.flush()\nsys.exit(99)"
    )

    assert found.outcome == "rejected"
    assert (found.failure.stage, found.failure.class_) == ("sanitizer", "data_race")
    assert found.failure.evidence["tool"] == "racecheck"
    assert found.failure.evidence["line"] == 7


def test_a_warning_is_a_line_and_no_fault(tmp_path: Path) -> None:
    warning = RACE.replace("Error: Race", "Warning: Race")
    found = watched(tmp_path, f"log.write({warning!r})")

    assert found.accepted
    assert any("Race reported" in w for w in found.warnings)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "log.write('========= Error: Device not supported\\n')\nlog.flush()\nsys.exit(1)",
            "Device not supported",
        ),
        ("sys.stderr.write('no library')\nsys.exit(127)", "no library"),
        (f"log.write({HOST!r})\nlog.flush()\nsys.exit(2)", ""),
        (
            f"log.write({BOUNDS.replace('at k(', 'at other(').replace('kernel.cu', 'other.cu')!r})",
            "names no kernel of this plan",
        ),
    ],
)
def test_a_tool_that_fails_blames_nobody(tmp_path: Path, body: str, words: str) -> None:
    found = watched(tmp_path, body)

    assert found.accepted
    assert status(found, "sanitizer") == "not_measured"
    assert words in found.stage("sanitizer").detail


def test_a_tool_that_hangs_is_ended_with_all_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuda_harness.tools.verify.sanitizer.TOOL_S", 1.5)
    pids = tmp_path / "pids"
    body = f"import os\nopen({str(pids)!r}, 'a').write(f'{{os.getpid()}} ')\ntime.sleep(60)"
    began = time.monotonic()
    found = watched(tmp_path, body)

    assert time.monotonic() - began < 50
    assert found.accepted
    assert "did not end within 2 s" in found.stage("sanitizer").detail
    for pid in pids.read_text().split():
        with pytest.raises(ProcessLookupError):
            os.kill(int(pid), 0)


def test_a_gpu_that_somebody_holds_is_waited_for_and_then_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def held(_self: FileExecutor) -> AbstractContextManager[None]:
        uuid = "GPU-1"
        raise LockTimeout(uuid, 3, "17")

    monkeypatch.setattr(FileExecutor, "shared", held)
    found = watched(tmp_path, f"log.write({CLEAN!r})")

    assert found.accepted
    assert "GPU-1 is held by process 17" in found.stage("sanitizer").detail


def test_sizes_at_which_it_does_not_compile_are_said(tmp_path: Path) -> None:
    found = watched(tmp_path, "", compiles=CompileRejected(seconds=0.1))

    assert "does not compile at these sizes" in found.stage("sanitizer").detail


def test_the_corpus_can_be_judged_without_it() -> None:
    class Device:
        def write_job(self, job: Any, path: Path) -> None: ...
        def once_command(self, path: Path, answer: Path | None = None) -> None: ...
        def once_environment(self) -> None: ...
        def shared(self) -> None: ...

    device: Any = Device()
    assert isinstance(device, RunsFiles)
    without_sanitizer(device)
    assert not isinstance(device, RunsFiles)
