"""What is wrong with a benchmark's own program: does it pass its own test, and what does compute-sanitizer see in it?"""

import shutil
import tempfile
from pathlib import Path

from cuda_harness.tools.benchmarks.candidate import Binary
from cuda_harness.tools.benchmarks.gpu import Gpu
from cuda_harness.tools.benchmarks.grade import Grader
from cuda_harness.tools.benchmarks.scripts import Data
from cuda_harness.tools.benchmarks.task import Task
from cuda_harness.tools.execute.cuda.lock import LockTimeout
from cuda_harness.tools.process import ProgramMissing, allowed_environment, run
from cuda_harness.tools.verify.sanitizer_log import Tool, parse_log

PROGRAM = "compute-sanitizer"
TOOLS: tuple[Tool, ...] = ("memcheck", "racecheck")
TOOL_SECONDS = 60.0
_LOG_BYTES = 4 << 20


def reference_faults(task: Task, grader: Grader, like: Binary, *, unsafe: bool) -> tuple[str, ...]:
    """Return what is wrong with bench.cu, a clause each; empty when nothing was found, or it could not be asked.

    Args:
        task: The task.
        grader: Grades it as it does any program.
        like: A program of this suite: compiled and run in the same way.
        unsafe: It may run where it cannot be contained; only then can the sanitizer watch it.
    """
    with tempfile.TemporaryDirectory(prefix="cuda-harness-reference-") as name:
        folder = Path(name)
        reference = Binary(
            task.bench,
            folder,
            flags=(*like.flags, "-lineinfo"),
            on=like.on,
            trusted=like.trusted,
            unsafe=unsafe,
        )
        grade = grader.grade(task, reference)
        found = []
        if grade.func is False:
            found.append(f"bench.cu itself does not pass: {' '.join(grade.detail.split())[:200]}")
        data = grader.data(task, None)
        if unsafe and reference.path is not None and not isinstance(data, str):
            found += sanitizer_faults(reference.path, data, like.on)
    return tuple(found)


def sanitizer_faults(binary: Path, data: Data, on: Gpu | None) -> list[str]:
    """Return what compute-sanitizer finds in a program on these inputs, a clause each, at most three a tool."""
    program = shutil.which(PROGRAM)
    if program is None:
        return []
    found: dict[str, None] = {}
    with tempfile.TemporaryDirectory(prefix="cuda-harness-sanitizer-") as name:
        folder = Path(name)
        for relative, content in data.inputs.items():
            (folder / relative).parent.mkdir(parents=True, exist_ok=True)
            (folder / relative).write_bytes(content)
        for tool in TOOLS:
            log = folder / f"{tool}.log"
            argv = [program, "--tool", tool, "--report-api-errors", "no", "--print-limit", "20", "--log-file", str(log), str(binary)]  # fmt: skip
            _run(argv, folder, on)
            text = log.read_bytes()[:_LOG_BYTES].decode("utf-8", "replace") if log.is_file() else ""
            errors = [f for f in parse_log(tool, text).findings if not f.is_warning]
            found |= {f"bench.cu under {tool}: {f.message[:200]}": None for f in errors[:3]}
    return list(found)


def _run(argv: list[str], folder: Path, on: Gpu | None) -> None:
    """Run a tool to its end or to its limit; its log says what it found, and nothing else counts."""
    environment = allowed_environment(on.environment if on is not None else None)
    try:
        if on is None:
            run(argv, timeout_s=TOOL_SECONDS, cwd=folder, env=environment)
        else:
            with on.lock(alone=False):
                run(argv, timeout_s=TOOL_SECONDS, cwd=folder, env=environment)
    except (ProgramMissing, LockTimeout):
        return
