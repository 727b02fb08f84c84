"""The last stage: compute-sanitizer's four tools on a tiny job each, side by side, each in a process group of its own."""

import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from cuda_harness.state.results import CompileOk, CompileResult
from cuda_harness.state.suite import Case
from cuda_harness.tools.execute.cuda.lock import LockTimeout
from cuda_harness.tools.execute.protocol import Job
from cuda_harness.tools.ir.program import PlanFault
from cuda_harness.tools.process import ProgramMissing, run
from cuda_harness.tools.verify.climb import Climb, Skipped, fail, job_for, program_for
from cuda_harness.tools.verify.policy import launched_kernels
from cuda_harness.tools.verify.sanitizer_log import TOOLS, SanitizerFinding, Tool, parse_log

PROGRAM = "compute-sanitizer"
TOOL_S = 60.0
"""Wall seconds for one tool; a job of tiny sizes takes a few, most of them to start."""
WORK = 20_000
"""Most work of the case that is run: racecheck follows every access to shared memory."""
_FOUND = 99
_LOG_BYTES = 4 << 20


@runtime_checkable
class RunsFiles(Protocol):
    """An executor whose jobs can be put behind another program."""

    def write_job(self, job: Job, path: Path) -> CompileResult:
        """Write a job to a file."""
        ...

    def once_command(self, path: Path, answer: Path | None = None) -> list[str]:
        """Return the program that runs the file."""
        ...

    def once_environment(self) -> dict[str, str]:
        """Return its environment."""
        ...

    def shared(self) -> AbstractContextManager[object]:
        """Return the device's lock, which a clock may hold alone."""
        ...


@dataclass(frozen=True)
class ToolResult:
    """What one tool said; `reason` is empty where it got to its end."""

    tool: Tool
    findings: tuple[SanitizerFinding, ...]
    reason: str
    seconds: float


def sanitizer_stage(climb: Climb) -> str:
    """Memory, races of shared memory, unwritten memory and barriers, as the hardware sees them."""
    executor = climb.executor
    if not isinstance(executor, RunsFiles):
        return f"not measured: compute-sanitizer watches a GPU, this kernel ran on {executor.name}"
    program = shutil.which(PROGRAM, path=executor.once_environment().get("PATH"))
    if program is None:
        return "not measured: compute-sanitizer is not installed"
    case = _case(climb)
    plan = program_for(climb, case.dims, case.scalars)
    if isinstance(plan, PlanFault):
        return f"not measured: {plan.message}"
    left = min(TOOL_S, climb.deadline - time.monotonic())
    if left <= 1:
        return "not measured: the time for judging is over"
    job = replace(
        job_for(climb, plan, (climb.suite.inputs(case),), "plain", deadline_s=left), own_allocations=True, full_output=False
    )  # fmt: skip
    try:
        with executor.shared(), tempfile.TemporaryDirectory(prefix="cuda-harness-sanitizer-") as folder:
            results = watch(executor, program, job, Path(folder), seconds=left)
    except LockTimeout as exc:
        return f"not measured: {exc}"
    return _told(climb, case, results)


def watch(executor: RunsFiles, program: str, job: Job, folder: Path, *, seconds: float) -> list[ToolResult]:
    """Return what each tool says of a job; they run side by side, each for at most `seconds`.

    Args:
        executor: Writes the job and says how it is run.
        program: Path of compute-sanitizer.
        job: Small, with an allocation for each buffer.
        folder: For job files and logs.
        seconds: Wall seconds of each tool.
    """
    with ThreadPoolExecutor(len(TOOLS)) as pool:
        waiting = [pool.submit(_watched, executor, program, tool, job, folder, seconds) for tool in TOOLS]
        return [w.result() for w in waiting]


def _case(climb: Climb) -> Case:
    """Return the largest tiny case that the slowest tool bears: several blocks, if sizes allow."""
    cases = climb.suite.cases("tiny", tunables=climb.tunables)
    from cuda_harness.tools.synthesize.shapes import work

    usable = [c for c in cases if 0 not in c.dims.values() and work(climb.ir, c.dims) <= WORK]
    return max(usable or cases[:1], key=lambda c: work(climb.ir, c.dims))


def _watched(
    executor: RunsFiles, program: str, tool: Tool, job: Job, folder: Path, seconds: float
) -> ToolResult:
    """Run one tool; it and its target end together, at their own deadline."""
    began = time.monotonic()
    path, log, answer = folder / f"{tool}.job", folder / f"{tool}.log", folder / f"{tool}.answer"

    def result(reason: str, findings: tuple[SanitizerFinding, ...] = ()) -> ToolResult:
        return ToolResult(tool, findings, reason, round(time.monotonic() - began, 3))

    # Poison would hide from initcheck what the kernel never wrote.
    compiled = executor.write_job(replace(job, unpoisoned=tool == "initcheck"), path)
    if not isinstance(compiled, CompileOk):
        return result("the kernel does not compile at these sizes")
    argv = [
        program, "--tool", tool, "--error-exitcode", str(_FOUND), "--report-api-errors", "no", "--print-limit", "20",
        "--target-processes", "all", "--log-file", str(log), *(("--padding", "256") if tool == "memcheck" else ()),
        *executor.once_command(path, answer),
    ]  # fmt: skip
    try:
        ended = run(argv, timeout_s=seconds, env=executor.once_environment(), max_output=1 << 16, cwd=folder)
    except ProgramMissing as exc:
        return result(f"it does not start: {exc}")
    text = _head(log)
    report = parse_log(tool, text)
    if report.findings:
        return result("", report.findings)
    if ended.status != "exited":
        return result(f"it did not end within {seconds:.0f} s")
    if report.summary is None or ended.returncode not in {0, _FOUND}:
        return result(_last_words(text) or _last_words(ended.text()) or f"it ended with {ended.returncode}")
    return result("")


def _head(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(_LOG_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _last_words(text: str) -> str:
    lines = [line.removeprefix("=========").strip() for line in text.splitlines()]
    return next((line[:200] for line in reversed(lines) if line and "SUMMARY" not in line), "")


def _told(climb: Climb, case: Case, results: list[ToolResult]) -> str:
    """Return the stage's words; ends the climb where a tool has found a fault of the kernel."""
    launched = set(launched_kernels(climb.kernel.plan.steps))
    states = {r.tool: r.reason or ("passed" if not r.findings else "found") for r in results}
    climb.covered = {
        "dims": case.dims,
        "tools": states,
        "seconds": {r.tool: r.seconds for r in results},
    }
    strange = []
    for finding in (f for r in results for f in r.findings):
        if finding.is_warning:
            climb.warnings.append(finding.message)
        elif finding.line is None and finding.kernel not in launched:
            strange.append(finding)
        else:
            evidence = {
                "tool": finding.tool,
                "line": finding.line,
                "kernel": finding.kernel,
                "block": finding.block,
                "thread": finding.thread,
            }
            known = {k: v for k, v in evidence.items() if v is not None}
            fail(
                "sanitizer",
                finding.class_,
                f"{finding.message} [sizes {case.dims}]",
                {**known, "dims": case.dims},
            )
    unmeasured = [f"{r.tool}: {r.reason}" for r in results if r.reason]
    unmeasured += [
        f"{f.tool}: a complaint that names no kernel of this plan: {f.message}"[:200] for f in strange[:1]
    ]
    passed = ", ".join(r.tool for r in results if not r.reason)
    if len(unmeasured) == len(results):
        raise Skipped("; ".join(unmeasured)[:500])
    words = f"{passed} clean at sizes {case.dims}"
    return f"not measured: {'; '.join(unmeasured)}; {words}" if unmeasured else words
