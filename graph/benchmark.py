"""A suite of tasks through the harness: one run a task and sample, each graded, each line on disk when it is done."""

import hashlib
import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cuda_harness.agents.context import RunContext
from cuda_harness.graph.session import versions
from cuda_harness.state.budget import Budget
from cuda_harness.state.errors import ConfigError, ModelError, SandboxUnavailable, ToolchainError
from cuda_harness.state.settings import Settings
from cuda_harness.tools.archive.run_folder import new_run_id
from cuda_harness.tools.benchmarks.binding import bind
from cuda_harness.tools.benchmarks.grade import Grade, Grader
from cuda_harness.tools.benchmarks.results import Results, Row, empty_row
from cuda_harness.tools.benchmarks.task import Level, Task

if TYPE_CHECKING:
    from cuda_harness.graph.result import RunResult
    from cuda_harness.state.attempt import Attempt
    from cuda_harness.tools.benchmarks.candidate import Candidate
    from cuda_harness.tools.execute.protocol import Executor
    from cuda_harness.tools.export.subject import Subject

Work = tuple[Task, Level, int]
Report = Callable[[str], None]


@dataclass(frozen=True)
class Order:
    """What is to be run."""

    suite: str
    tasks: Sequence[Task]
    levels: Sequence[Level]
    samples: int = 1
    jobs: int = 1
    baseline: Literal["one-shot"] | None = None
    clarify: Mapping[tuple[int, int | None], str] = field(default_factory=dict)
    """Further words for a task, by id and level (`None`: every level)."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Budget of the whole suite: max_calls, max_tokens, max_usd, max_seconds."""
    executors: Sequence[str] = ("auto",)
    trusted: bool = False
    """The suite's bench.cu is ours: it may run under ncu outside containment."""

    def works(self) -> Iterator[Work]:
        """Yield task, level and sample in order."""
        for level in self.levels:
            for task in self.tasks:
                for sample in range(1, self.samples + 1):
                    yield task, level, sample


class Purse:
    """The budget of the whole suite, shared by runs that go on at the same time."""

    def __init__(self, limits: Mapping[str, float], each: Budget) -> None:
        self._left = dict(limits)
        self._each = each
        self._ends = time.monotonic() + limits["max_seconds"] if "max_seconds" in limits else None
        self._lock = threading.Lock()

    def draw(self, parts: int) -> Budget | None:
        """Return a run's budget, set aside until `settle`; `None` when something is spent. `parts` runs share it."""
        with self._lock:
            change: dict[str, Any] = {}
            for name, left in self._left.items():
                if name == "max_seconds":
                    left = (self._ends or 0) - time.monotonic()  # noqa: PLW2901 - time is not set aside
                if left <= 0:
                    return None
                share = left if name == "max_seconds" else left / max(1, parts)
                own = getattr(self._each, name)
                amount = share if own is None else min(float(own), share)
                change[name] = max(1, int(amount)) if name in {"max_calls", "max_tokens"} else amount
                if name != "max_seconds":
                    self._left[name] = left - change[name]
            return self._each.model_copy(update=change)

    def settle(self, drawn: Budget, row: Row) -> None:
        """Give back what a run did not spend; what is not known counts as spent."""
        tokens = None if row["input_tokens"] is None else row["input_tokens"] + (row["output_tokens"] or 0)
        spent = {"max_calls": row["calls"], "max_tokens": tokens, "max_usd": row["usd"]}
        with self._lock:
            for name in self._left.keys() & spent.keys():
                if spent[name] is not None:
                    self._left[name] += float(getattr(drawn, name)) - float(spent[name])


_UNKNOWN = "not asked yet"


class Bench:
    """Runs an order and keeps its results."""

    def __init__(self, order: Order, settings: Settings, out: Path, *, report: Report) -> None:
        """Open the results; nothing is run yet.

        Raises:
            ConfigError: If `out` holds results of something else.
        """
        self.order, self.settings, self._report = order, settings, report
        self._local = threading.local()
        self._executors: list[Executor] = []
        self._lock = threading.Lock()
        self._containment: str | None = _UNKNOWN
        self._references: dict[int, str | None] = {}
        self.cancelled = threading.Event()
        self.results = Results(out, self._head())

    def _head(self) -> dict[str, Any]:
        text = json.dumps(
            [t.model_dump(mode="json", by_alias=True) for t in self.order.tasks], sort_keys=True
        )
        model = self.settings.model or "offline"
        return {
            "title": f"{self.order.suite}: {model}" + (f", {self.order.baseline} baseline" if self.order.baseline else ""),
            "suite": self.order.suite,
            "tasks_sha256": hashlib.sha256(text.encode()).hexdigest(),
            "levels_asked": list(self.order.levels),
            "samples": self.order.samples,
            "model": model + (f" ({self.order.baseline})" if self.order.baseline else ""),
            "executor": ",".join(self.order.executors),
            "target": self.settings.target or "",
            "clarified": bool(self.order.clarify),
            "versions": versions(),
            "created": new_run_id(),
        }  # fmt: skip

    def run(self) -> dict[str, Any]:
        """Run what is not done yet and return the summary; a task that fails never stops the others.

        Raises:
            ConfigError: If the model or the executor cannot be set up; the user acts.
            ToolchainError: If this machine lacks something, or a device is lost on the way; finished lines are kept.
        """
        every = list(self.order.works())
        todo = [w for w in every if (w[0].id, w[1], w[2]) not in self.results.done]
        purse = Purse(self.order.limits, self.settings.budget)
        began, notes, fatal = time.monotonic(), [], None
        self._report(
            f"{len(every)} results, {len(every) - len(todo)} done before, {self.order.jobs} at a time"
        )
        self._prepare(todo)
        pool = ThreadPoolExecutor(self.order.jobs, thread_name_prefix="bench")
        done = 0
        try:
            for future in as_completed([pool.submit(self._guarded, work, purse) for work in todo]):
                try:
                    row = future.result()
                except ToolchainError as exc:
                    fatal = fatal or exc
                    self.cancelled.set()
                    continue
                if row is None:
                    continue
                done += 1
                self.results.add(row)
                left = (time.monotonic() - began) / done * (len(todo) - done)
                self._report(_progress(row, len(every) - len(todo) + done, len(every), left))
        except KeyboardInterrupt:
            self.cancelled.set()
            notes.append("interrupted")
        finally:
            self.cancelled.set()
            pool.shutdown(cancel_futures=True)
            for executor in self._executors:
                executor.close()
        missing = len(todo) - done
        if missing and fatal is None:
            notes.append(
                f"{missing} result(s) not run: {'interrupted' if self.cancelled.is_set() else 'the budget is spent'}"
            )
        document = self.results.finish(self.order.tasks, notes=notes)
        if fatal is not None:
            raise fatal
        return document

    def _prepare(self, todo: Sequence[Work]) -> None:
        """Find out before the first task whether model, executor and containment work; raises what a user mends."""
        from cuda_harness.agents.llm.providers import chat_model
        from cuda_harness.tools.benchmarks.contain import contains

        if not todo:
            return
        model = self.settings.model or "offline"
        if model.partition(":")[0] not in {"record", "replay"}:
            chat_model(model, role="coder", settings=self.settings)
        self._executor()
        if any(w[0].gradable for w in todo) and not self.settings.unsafe_exec and not contains():
            msg = "the benchmark's scripts cannot be contained here: Landlock or seccomp does not work"
            raise SandboxUnavailable(
                msg, remedy="use a kernel with Landlock, or --unsafe-exec for code you trust"
            )

    def _guarded(self, work: Work, purse: Purse) -> Row | None:
        """Return a finished result, `None` when it was not run; an error of ours becomes a result that says so."""
        if self.cancelled.is_set():
            return None
        budget = purse.draw(self.order.jobs)
        if budget is None:
            return None
        task, level, sample = work
        row = empty_row(task, level, sample)
        began = time.monotonic()
        try:
            self._one(row, work, budget)
        except ToolchainError:
            self.cancelled.set()  # before the next task starts
            raise
        except ModelError as exc:
            row |= {
                "status": "model_failed",
                "detail": exc.message[:1000],
                "comp": False,
                "func": False,
                "func_official": False,
            }
        except Exception as exc:  # noqa: BLE001 - one task's bug of ours must not end the suite
            row |= {"status": "error", "detail": f"{type(exc).__name__}: {exc}"[:1000]}
        if self.cancelled.is_set():
            return None
        row["seconds"] = round(time.monotonic() - began, 3)
        purse.settle(budget, row)
        return row

    def _one(self, row: Row, work: Work, budget: Budget) -> None:
        task, level, sample = work
        extra = self.order.clarify.get((task.id, level)) or self.order.clarify.get((task.id, None))
        request = task.request(level) + (f"\nClarifications:\n{extra.strip()}\n" if extra else "")
        row["clarified"] = bool(extra)
        name = f"{task.id:04d}-{level}-{sample}"
        settings = self.settings.model_copy(
            update={
                "budget": budget,
                "out": str(self.results.root / "runs"),
                "model": spec_for(self.settings.model or "offline", name),
            }
        )
        if self.order.baseline:
            from cuda_harness.graph.baseline import one_shot

            source = one_shot(row, task, request, settings)
            if source is None:
                row |= {"comp": False, "func": False, "func_official": False}
                return
            self._keep(row, work, source)
            with tempfile.TemporaryDirectory(prefix="cuda-harness-build-") as folder:
                self._grade(row, task, self._binary(source, (), Path(folder)))
            return
        from cuda_harness.graph import runner

        context = RunContext(settings=settings, executor=self._executor(), cancelled=self.cancelled)
        result = runner.generate(request, context=context)
        self._take(row, work, result)

    def _take(self, row: Row, work: Work, result: "RunResult") -> None:
        """Fill a row from a finished run: verdict, spend, program, grade."""
        task = work[0]
        usage, verdict, timing = result.document["usage"], result.verdict, result.timing
        row |= {k: usage.get(k) for k in ("calls", "input_tokens", "output_tokens", "usd")}
        row |= {
            "run": str(result.run_dir.relative_to(self.results.root.resolve())) if result.run_dir.is_relative_to(self.results.root.resolve()) else str(result.run_dir),
            "outcome": verdict.outcome if verdict else None,
            "failure_class": verdict.failure.class_ if verdict and verdict.failure else None,
            "sol_fraction": timing.sol_fraction if timing else None,
        }  # fmt: skip
        attempt = submitted(result)
        if attempt is None or result.ir is None:
            reason = str(result.stop["reason"])
            status = {"refused": "refused", "model_failed": "model_failed", "environment": "not_run"}.get(
                reason, "failed"
            )
            row |= {"status": status, "detail": str(result.stop.get("detail", ""))[:600]}
            if status != "not_run":
                row |= {"comp": False, "func": False, "func_official": False}
            return
        from cuda_harness.tools.archive.run_folder import RunFolder
        from cuda_harness.tools.export.standalone import standalone
        from cuda_harness.tools.export.subject import Subject

        kernel = RunFolder(result.run_dir).load_kernel(attempt.id)
        files = bind(result.ir, task)
        if isinstance(files, str):
            row |= {
                "status": "interface",
                "detail": files,
                "comp": False,
                "func": False,
                "func_official": False,
            }
            return
        subject = Subject(result.ir, kernel, verdict)
        try:
            program = standalone(subject, fixed=True, files={n: f.path for n, f in files.items()})
        except ConfigError as exc:
            row |= {
                "status": "failed",
                "detail": exc.message[:600],
                "comp": False,
                "func": False,
                "func_official": False,
            }
            return
        self._keep(row, work, program.text)
        row["status"] = "verified" if verdict is not None and verdict.accepted else "unverified"
        with tempfile.TemporaryDirectory(prefix="cuda-harness-build-") as folder:
            candidate = self._candidate(subject, files, program.text, program.build, Path(folder))
            self._grade(row, task, candidate)

    def _keep(self, row: Row, work: Work, text: str) -> None:
        from cuda_harness.tools.archive.run_folder import write_atomically

        path = self.results.program_path(*work)
        write_atomically(path, text.encode("utf-8", "replace"))
        row["program"] = str(path.relative_to(self.results.root))

    def _grade(self, row: Row, task: Task, candidate: "Candidate | None") -> None:
        grade = (
            self._grader().grade(task, candidate)
            if candidate is not None
            else Grade(None, None, None, None, "", "programs are run on a GPU machine only")
        )
        row |= {"comp": grade.comp, "func": grade.func, "func_official": grade.func_official, "ours": grade.ours,
                "graded_by": grade.graded_by, "detail": grade.detail or row["detail"],
                "judge": None if grade.judge is None else list(grade.judge)}  # fmt: skip
        row["status"] = row["status"] or "program"
        fault = self._reference_fault(task, candidate) if grade.comp is not None else None
        if fault is not None:
            row["judge"] = [*(row["judge"] or ()), fault]
        if grade.func and candidate is not None:
            self._measure(row, task, candidate)

    def _reference_fault(self, task: Task, candidate: "Candidate | None") -> str | None:
        """Return why the benchmark's own program does not pass its own test; `None`: it does, or was not asked."""
        from cuda_harness.tools.benchmarks.candidate import Binary

        if not isinstance(candidate, Binary) or candidate.trusted or not task.bench:
            return None
        with self._lock:
            if task.id in self._references:
                return self._references[task.id]
        with tempfile.TemporaryDirectory(prefix="cuda-harness-reference-") as folder:
            reference = Binary(task.bench, Path(folder), flags=candidate.flags, device=candidate.device)
            grade = self._grader().grade(task, reference)
        fault = (
            None
            if grade.func is not False
            else f"bench.cu itself does not pass: {' '.join(grade.detail.split())[:200]}"
        )
        with self._lock:
            self._references[task.id] = fault
        return fault

    def _measure(self, row: Row, task: Task, candidate: "Candidate") -> None:
        """Fill score and speed against bench.cu, both programs under ncu on the official data."""
        from cuda_harness.tools.benchmarks.candidate import Binary
        from cuda_harness.tools.benchmarks.score import NotScored, measure_on

        if not isinstance(candidate, Binary) or candidate.path is None:
            row["not_measured"] = "score and speed: the program was not run on a GPU"
            return
        if self.order.baseline and not self.settings.unsafe_exec:
            row["not_measured"] = (
                "score and speed: ncu cannot work in containment (--unsafe-exec runs it without)"
            )
            return
        data = self._grader().data(task, None)
        own = measure_on(candidate.path, data, candidate.device)
        if isinstance(own, NotScored):
            row["not_measured"] = f"score and speed: {own.reason}"
            return
        row["score"] = own.score
        if not (self.order.trusted or self.settings.unsafe_exec):
            row["not_measured"] = (
                "speed: bench.cu is foreign, and ncu cannot work in containment (--unsafe-exec)"
            )
            return
        with tempfile.TemporaryDirectory(prefix="cuda-harness-bench-") as folder:
            reference = Binary(task.bench, Path(folder), flags=candidate.flags, device=candidate.device)
            built = reference.build()
            if built.status != "ok" or reference.path is None:
                row["not_measured"] = f"speed: bench.cu does not compile: {built.message}"[:400]
                return
            other = measure_on(reference.path, data, candidate.device)
        if isinstance(other, NotScored) or own.time_us is None or other.time_us is None:
            row["not_measured"] = (
                f"speed: {other.reason if isinstance(other, NotScored) else 'ncu gave no time'}"
            )
            return
        row["speed_vs_reference"] = other.time_us / own.time_us

    def _candidate(
        self, subject: "Subject", files: Mapping[str, Any], text: str, build: Sequence[str], folder: Path
    ) -> "Candidate":
        """Return the program where a GPU and nvcc are, else the plan on the run's executor."""
        import shutil

        from cuda_harness.tools.benchmarks.candidate import PlanProgram

        executor = self._executor()
        if not executor.name.startswith("cpu") and shutil.which("nvcc") is not None:
            return self._binary(text, tuple(build), folder) or PlanProgram(
                subject.kernel, subject.ir, dict(files), executor, target=self._target()
            )
        return PlanProgram(subject.kernel, subject.ir, dict(files), executor, target=self._target())

    def _binary(self, source: str, flags: tuple[str, ...], folder: Path) -> "Candidate | None":
        from cuda_harness.tools.benchmarks.candidate import Binary

        name = self._executor().name
        if name.startswith("cpu"):
            return None
        device = int(name.partition(":")[2] or 0)
        flags = tuple(f for f in flags if not f.startswith("-arch=")) or ("-std=c++17", "-O3")
        flags = (*flags, f"-arch={self._target()}")
        why = self._contained(flags, device)
        if why is not None and self.order.baseline and not self.settings.unsafe_exec:
            raise SandboxUnavailable(why, remedy="--unsafe-exec runs programs you trust without containment")
        return Binary(
            source,
            folder,
            flags=flags,
            unsafe=self.settings.unsafe_exec,
            device=device,
            trusted=why is not None,
        )

    def _contained(self, flags: tuple[str, ...], device: int) -> str | None:
        """Return why programs do not run in containment on this machine, `None` when they do; asked once."""
        from cuda_harness.tools.benchmarks.candidate import cuda_in_containment

        with self._lock:
            if self._containment is _UNKNOWN:
                self._containment = cuda_in_containment(flags, device)
                if self._containment is not None:
                    self._report(
                        f"programs whose host part is ours run without containment: {self._containment}"
                    )
            return self._containment

    def _target(self) -> str:
        return self.settings.target or self._executor().device().arch or "sm_90a"

    def _executor(self) -> "Executor":
        """Return this worker's executor; devices are dealt out in turn."""
        found: Executor | None = getattr(self._local, "executor", None)
        if found is None:
            from cuda_harness.tools.execute.registry import executor

            with self._lock:
                name = self.order.executors[len(self._executors) % len(self.order.executors)]
                found = executor(name, settings=self.settings, cancel=self.cancelled)
                self._executors.append(found)
            self._local.executor = found
        return found

    def _grader(self) -> Grader:
        found: Grader | None = getattr(self._local, "grader", None)
        if found is None:
            found = self._local.grader = Grader(unsafe=self.settings.unsafe_exec)
        return found


def submitted(result: "RunResult") -> "Attempt | None":
    """Return the attempt whose program is handed in: the delivered one, else the one that came furthest."""
    from cuda_harness.state.lineage import furthest

    best = result.state.result.best if result.state.result is not None else None
    return result.state.attempts[best] if best is not None else furthest(result.state.attempts)


def spec_for(model: str, name: str) -> str:
    """Return a model's spec for one result: recordings of a suite are a folder with one file a result."""
    kind, _, rest = model.partition(":")
    if kind == "record":
        folder, _, inner = rest.partition(":")
        return f"record:{folder}/{name}.jsonl:{inner}"
    if kind == "replay" and Path(rest).is_dir():
        return f"replay:{rest}/{name}.jsonl"
    return model


def _progress(row: Row, done: int, total: int, left_s: float) -> str:
    func = {True: "functional", False: "not functional", None: "not graded"}[row["func"]]
    minutes, seconds = divmod(int(left_s), 60)
    return (
        f"[{done}/{total}, {minutes}:{seconds:02d} left] {row['kind']} (id {row['id']}) level {row['level']} sample "
        f"{row['sample']}: {row['status']}, {func}" + (f" ({' '.join(row['detail'].split())[:100]})" if row["detail"] and not row["func"] else "")
    )  # fmt: skip


def read_clarifications(path: Path) -> dict[tuple[int, int | None], str]:
    """Return further words by task and level from a JSONL file with `id`, `answers` and optionally `level`.

    Raises:
        ConfigError: If it cannot be read; the user acts.
    """
    found: dict[tuple[int, int | None], str] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        for line in filter(str.strip, lines):
            row = json.loads(line)
            level = int(row["level"]) if row.get("level") is not None else None
            answers = row["answers"]
            text = answers if isinstance(answers, str) else "\n".join(f"- {a}" for a in answers)
            found[int(row["id"]), level] = text
    except (OSError, ValueError, KeyError, TypeError) as exc:
        msg = f"cannot read the answers in {str(path)!r}: {exc}"
        raise ConfigError(
            msg, remedy='write lines like {"id": 3, "level": 3, "answers": ["lr = 0.1"]}'
        ) from exc
    return found
