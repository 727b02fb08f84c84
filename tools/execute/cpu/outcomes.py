"""How a job that did not end well is told: a compiler that refused, a child that died, a fault that it reported."""

import re
import signal
from pathlib import Path
from typing import Any

from cuda_harness.tools.execute.cpu.lines import Place, own_column, place_of
from cuda_harness.tools.execute.protocol import (
    CopyOp,
    FillOp,
    Job,
    JobFault,
    JobNotRun,
    JobResult,
    LaunchOp,
    Op,
    SymbolOp,
)
from cuda_harness.tools.process import Finished, run


def compile_failed(done: Finished) -> JobFault | JobNotRun:
    """Return what a compilation that failed says: unsupported here, or more than a source may take."""
    if done.status != "exited":
        return JobFault("compile", f"g++ did not end within {done.seconds:.0f} s")
    log = done.text()
    beyond = re.search(r"CPU time limit|Killed signal|out of memory|memory exhausted|File size limit", log)
    if beyond:
        what = "time" if "time" in beyond.group() else "memory or disk"
        return JobFault("compile", f"g++ needs too much {what} for this source: {beyond.group()}")
    mark = re.search(r"cuda_harness unsupported: ([^\n\"]{1,200})", log)
    line = re.search(r"kernel\.cu:(\d+):\d+:", log)  # lines that name an including file have no column
    evidence = {"line": int(line.group(1))} if line else {}
    where = f"line {line.group(1)}: " if line else ""
    if mark:
        return JobNotRun("unsupported", where + mark.group(1), "", evidence)
    missing = re.search(r"fatal error: ([^\n:]+): No such file", log)
    if missing:
        return JobNotRun(
            "unsupported", f"{where}the CPU executor has no header {missing.group(1)}", "", evidence
        )
    errors = re.findall(r"kernel\.cu:(\d+):(?:\d+:)? error: ([^\n]{1,300})", log)
    text = "; ".join(f"line {n}: {m}" for n, m in errors[:5]) or log[:800]
    return JobNotRun("unsupported", f"g++ does not accept this source: {text}", "", evidence)


def _launch_name(job: Job, number: int) -> str:
    names: list[str] = []

    def walk(ops: tuple[Op, ...]) -> None:
        for op in ops:
            if isinstance(op, LaunchOp):
                names.append(op.kernel)
            elif not isinstance(op, (FillOp, CopyOp, SymbolOp)):
                walk(op.body)

    walk(job.program.ops)
    return names[number] if 0 <= number < len(names) else "the plan"


def died(job: Job, done: Finished, launch: int) -> JobResult:
    """Return the result of a child that ended without an answer; `launch` is the one it was in, -1 before the first."""
    name = _launch_name(job, launch)
    if done.status == "cancelled":
        return JobNotRun("environment", "the run was cancelled")
    if done.starved:
        text = f"{name} hardly ran in {done.seconds:.0f} s: this machine is busy with other work"
        return JobNotRun("resources", text, "judge it again when fewer programs run")
    if done.status == "timed_out" or done.returncode in {-24, -9}:
        message = f"{name} did not end within {job.deadline_s:.0f} s: an endless loop, a wait for a block that never runs, or too much work"
        return JobFault("timeout", message, {"kernel": name, "seconds": round(done.seconds, 1)})
    if done.returncode == -signal.SIGSYS:
        return JobNotRun(
            "environment",
            "the sandbox ended the runner at a system call of this machine's C library",
            "report it with `cuda-harness doctor`",
        )
    if launch < 0:
        return JobNotRun(
            "environment",
            f"the runner ended with {done.returncode} before the kernel ran: {done.text()[:300]}",
        )
    return JobFault("crash", f"{name} ended the process with status {done.returncode}", {"kernel": name})


def fault_of(said: dict[str, Any], library: Path, source: str) -> JobFault:
    """Return the reported fault with line, column, place and buffer as evidence."""
    evidence = _evidence(said, library, source)
    message = _with_line(str(said.get("message", "")), evidence)
    if "thread" in evidence:
        message += (
            f" [kernel {evidence.get('kernel')}, block {evidence.get('block')}, thread {evidence['thread']}]"
        )
    return JobFault(said["fault"], message, evidence)


def not_run_of(said: dict[str, Any], library: Path, source: str) -> JobNotRun:
    """Return what the child could not run, with its line where that is known."""
    evidence = _evidence(said, library, source)
    message = _with_line(str(said.get("message", "")), evidence)
    return JobNotRun(said.get("reason", "environment"), message, "", evidence)


def _with_line(message: str, evidence: dict[str, Any]) -> str:
    if "line" in evidence and not message.startswith("line "):
        return f"line {evidence['line']}: {message}"
    return message


def _evidence(said: dict[str, Any], library: Path, source: str) -> dict[str, Any]:
    keys = ("kernel", "launch", "block", "thread", "line", "column", "buffer", "other_thread", "other_block")
    evidence = {k: said[k] for k in keys if k in said}
    pc = said.get("pc")
    if pc and "line" not in evidence:
        offset = max(int(pc) - int(said.get("base", 0)) - 1, 0)
        place = place_of(library, offset)
        line = place.line if place else _line_of(library, offset)
        if line is not None:
            evidence["line"] = line
        if place and place.column:
            evidence["column"] = place.column
    if "line" in evidence and "column" in evidence:
        evidence["column"] = own_column(source, library, Place(evidence["line"], evidence["column"]))
    return evidence


def _line_of(library: Path, offset: int) -> int | None:
    """Return the kernel.cu line of a code address, innermost inlined frame of the kernel's own text first."""
    try:
        done = run(["addr2line", "-i", "-e", str(library), hex(offset)], timeout_s=10)
    except Exception:  # noqa: BLE001 - a missing addr2line costs the line, nothing else
        return None
    for text in done.stdout.decode("utf-8", "replace").splitlines():
        found = re.match(r"(?:.*/)?kernel\.cu:(\d+)", text)
        if found:
            return int(found.group(1))
    return None
