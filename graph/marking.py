"""How a result of a suite is graded and timed: by its program on a GPU machine, by its plan elsewhere."""

import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda_harness.state.errors import SandboxUnavailable
from cuda_harness.tools.benchmarks.candidate import Binary, PlanProgram, cuda_in_containment
from cuda_harness.tools.benchmarks.gpu import Gpu, gpu_of
from cuda_harness.tools.benchmarks.grade import Grade, Grader
from cuda_harness.tools.benchmarks.reference import reference_faults
from cuda_harness.tools.benchmarks.results import Row
from cuda_harness.tools.benchmarks.score import NotScored, measure_on
from cuda_harness.tools.benchmarks.task import Task

if TYPE_CHECKING:
    from cuda_harness.state.settings import Settings
    from cuda_harness.tools.benchmarks.candidate import Candidate
    from cuda_harness.tools.execute.protocol import Executor
    from cuda_harness.tools.export.subject import Subject

Report = Callable[[str], None]
_UNKNOWN = "not asked yet"


class Marking:
    """Grades results; safe to share between workers, each has a grader of its own."""

    def __init__(
        self,
        settings: "Settings",
        executor: "Callable[[], Executor]",
        report: Report,
        *,
        foreign: bool,
        trusted: bool,
    ) -> None:
        """Take what is needed; nothing is tried yet.

        Args:
            settings: Of the suite.
            executor: Returns this worker's executor.
            report: Takes a line for the user.
            foreign: Programs are a model's whole text, host part included.
            trusted: The suite's bench.cu is ours.
        """
        self._settings, self._executor, self._report = settings, executor, report
        self._foreign, self._trusted = foreign, trusted
        self._local = threading.local()
        self._lock = threading.Lock()
        self._containment: str | None = _UNKNOWN
        self._references: dict[int, tuple[str, ...]] = {}

    def grade(self, row: Row, task: Task, candidate: "Candidate | None") -> None:
        """Fill a row with what the candidate is worth; `None`: a program, and no GPU to run it on."""
        grade = (
            self._grader().grade(task, candidate)
            if candidate is not None
            else Grade(None, None, None, None, "", "programs are run on a GPU machine only")
        )
        row |= {"comp": grade.comp, "func": grade.func, "func_official": grade.func_official, "ours": grade.ours,
                "graded_by": grade.graded_by, "detail": grade.detail or row["detail"],
                "judge": None if grade.judge is None else list(grade.judge)}  # fmt: skip
        row["status"] = row["status"] or "program"
        if grade.comp is not None and (faults := self._reference_faults(task, candidate)):
            row["judge"] = [*(row["judge"] or ()), *faults]
        if grade.func and candidate is not None:
            self._measure(row, task, candidate)

    def _reference_faults(self, task: Task, candidate: "Candidate | None") -> tuple[str, ...]:
        """Return what is wrong with the benchmark's own program, asked once a task; empty also where it cannot be asked."""
        if not isinstance(candidate, Binary) or candidate.on is None or not task.bench:
            return ()
        if candidate.trusted and not self._open:  # a foreign program, and nothing here contains it
            return ()
        with self._lock:
            known = self._references.get(task.id)
        if known is None:
            known = reference_faults(task, self._grader(), candidate, unsafe=self._open)
            with self._lock:
                self._references[task.id] = known
        return known

    @property
    def _open(self) -> bool:
        """Whether bench.cu may run outside containment."""
        return self._trusted or self._settings.unsafe_exec

    def _measure(self, row: Row, task: Task, candidate: "Candidate") -> None:
        """Fill score and speed against bench.cu, both programs under ncu on the official data."""
        if not isinstance(candidate, Binary) or candidate.path is None:
            row["not_measured"] = "score and speed: the program was not run on a GPU"
            return
        if self._foreign and not self._settings.unsafe_exec:
            row["not_measured"] = (
                "score and speed: ncu cannot work in containment (--unsafe-exec runs it without)"
            )
            return
        data = self._grader().data(task, None)
        own = measure_on(candidate.path, data, candidate.on)
        if isinstance(own, NotScored):
            row["not_measured"] = f"score and speed: {own.reason}"
            return
        row["score"] = own.score
        if not self._open:
            row["not_measured"] = (
                "speed: bench.cu is foreign, and ncu cannot work in containment (--unsafe-exec)"
            )
            return
        with tempfile.TemporaryDirectory(prefix="cuda-harness-bench-") as folder:
            reference = Binary(task.bench, Path(folder), flags=candidate.flags, on=candidate.on)
            built = reference.build()
            if built.status != "ok" or reference.path is None:
                row["not_measured"] = f"speed: bench.cu does not compile: {built.message}"[:400]
                return
            other = measure_on(reference.path, data, candidate.on)
        if isinstance(other, NotScored) or own.time_us is None or other.time_us is None:
            row["not_measured"] = (
                f"speed: {other.reason if isinstance(other, NotScored) else 'ncu gave no time'}"
            )
            return
        row["speed_vs_reference"] = other.time_us / own.time_us

    def candidate(
        self, subject: "Subject", files: Mapping[str, Any], text: str, build: Sequence[str], folder: Path
    ) -> "Candidate":
        """Return the program where a GPU and nvcc are, else the plan on the run's executor."""
        program = self.binary(text, tuple(build), folder) if shutil.which("nvcc") is not None else None
        if program is not None:
            return program
        executor = self._executor()
        return PlanProgram(subject.kernel, subject.ir, dict(files), executor, target=self._target())

    def binary(self, source: str, flags: tuple[str, ...], folder: Path) -> "Candidate | None":
        """Return a program to be built in `folder`, `None` where there is no GPU.

        Raises:
            SandboxUnavailable: If it is a model's program, and programs cannot be contained here.
        """
        on = gpu_of(self._executor())
        if on is None:
            return None
        flags = tuple(f for f in flags if not f.startswith("-arch=")) or ("-std=c++17", "-O3")
        flags = (*flags, f"-arch={self._target()}")
        if shutil.which("nvcc") is None:
            return Binary(source, folder, flags=flags, on=on)  # its build says what is missing
        why = self._contained(flags, on)
        if why is not None and self._foreign and not self._settings.unsafe_exec:
            raise SandboxUnavailable(why, remedy="--unsafe-exec runs programs you trust without containment")
        return Binary(
            source, folder, flags=flags, unsafe=self._settings.unsafe_exec, on=on, trusted=why is not None
        )  # fmt: skip

    def _contained(self, flags: tuple[str, ...], on: Gpu) -> str | None:
        """Return why programs do not run in containment on this machine, `None` when they do; asked once."""
        with self._lock:
            if self._containment is _UNKNOWN:
                self._containment = cuda_in_containment(flags, on)
                if self._containment is not None:
                    self._report(
                        f"programs whose host part is ours run without containment: {self._containment}"
                    )
            return self._containment

    def _target(self) -> str:
        return self._settings.target or self._executor().device().arch or "sm_90a"

    def _grader(self) -> Grader:
        found: Grader | None = getattr(self._local, "grader", None)
        if found is None:
            found = self._local.grader = Grader(unsafe=self._settings.unsafe_exec)
        return found
