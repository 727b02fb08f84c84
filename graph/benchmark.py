"""A suite of tasks through the harness: one run a task and sample, each graded, each line on disk when it is done."""

import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cuda_harness.agents.context import RunContext
from cuda_harness.graph.entry import gone_on, hand_in, known_of, spec_for
from cuda_harness.graph.marking import Marking, Report
from cuda_harness.graph.session import versions
from cuda_harness.state.budget import Budget
from cuda_harness.state.errors import (
    BudgetExhausted,
    ConfigError,
    ModelError,
    ModelUnavailable,
    SandboxUnavailable,
    ToolchainError,
)
from cuda_harness.state.serde import sha256
from cuda_harness.state.settings import Settings
from cuda_harness.tools.archive.run_folder import new_run_id
from cuda_harness.tools.benchmarks.clarify import Answers, answers_to, as_text
from cuda_harness.tools.benchmarks.purse import Purse
from cuda_harness.tools.benchmarks.results import AGAIN, CUT, UNAVAILABLE, Results, Row, empty_row
from cuda_harness.tools.benchmarks.task import Level, Task

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from cuda_harness.graph.result import RunResult
    from cuda_harness.tools.execute.protocol import Executor

Work = tuple[Task, Level, int]
ENOUGH = 5
"""Failures of the provider, or of the settings, in a row after which the suite stops."""
_NOTHING = {"comp": False, "func": False, "func_official": False}
"""The grade of a result without a program: a failure, as the benchmark counts it."""


@dataclass(frozen=True)
class Order:
    """What is to be run."""

    suite: str
    tasks: Sequence[Task]
    levels: Sequence[Level]
    samples: int = 1
    jobs: int = 1
    baseline: Literal["one-shot"] | None = None
    clarify: Mapping[tuple[int, int | None], Answers] = field(default_factory=dict)
    """Answers for a task, by id and level (`None`: every level)."""
    limits: Mapping[str, float] = field(default_factory=dict)
    """Budget of the whole suite: max_calls, max_tokens, max_usd, max_seconds, max_gpu_seconds."""
    executors: Sequence[str] = ("auto",)
    trusted: bool = False
    """The suite's bench.cu is ours: it may run under ncu outside containment."""

    def works(self) -> Iterator[Work]:
        """Yield task, level and sample in order."""
        for level in self.levels:
            for task in self.tasks:
                for sample in range(1, self.samples + 1):
                    yield task, level, sample


class Bench:
    """Runs an order and keeps its results."""

    def __init__(self, order: Order, settings: Settings, out: Path, *, report: Report) -> None:
        """Open the results; nothing is run yet.

        Raises:
            ConfigError: If `out` holds results of something else.
        """
        # A task's time is set beside its own reference; PyTorch's would take a minute a task.
        self.order, self.settings, self._report = (
            order,
            settings.model_copy(update={"libraries": False}),
            report,
        )
        self._local = threading.local()
        self._executors: list[Executor] = []
        self._spare: list[Executor] = []
        self._lock = threading.Lock()
        self._failing = 0
        self._marking = Marking(
            settings, self._executor, report, foreign=order.baseline is not None, trusted=order.trusted
        )  # fmt: skip
        self.cancelled = threading.Event()
        self.results = Results(out, self._head())

    def _head(self) -> dict[str, Any]:
        model = self.settings.model or "offline"
        return {
            "title": f"{self.order.suite}: {model}" + (f", {self.order.baseline} baseline" if self.order.baseline else ""),
            "suite": self.order.suite,
            "tasks": {str(t.id): sha256(t.model_dump(mode="json", by_alias=True)) for t in self.order.tasks},
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
        purse = Purse(self.order.limits, self.settings.budget, spent=self.results.rows)
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
        if self._failing >= ENOUGH:
            notes.append(f"stopped: the provider or the settings failed {self._failing} times in a row")
        missing = len(todo) - done
        if missing and fatal is None:
            why = "" if notes else ": the budget is spent"
            notes.append(f"{missing} result(s) not run{why}")
        if again := sum(r["status"] in AGAIN for r in self.results.rows):
            notes.append(
                f"{again} result(s) not run to an end (see status); the same command runs them again"
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
            self._require_price(chat_model(model, role="coder", settings=self.settings))
        self._spare.append(self._executor())  # the first worker takes it
        del self._local.executor
        if any(w[0].gradable for w in todo) and not self.settings.unsafe_exec and not contains():
            msg = "the benchmark's scripts cannot be contained here: Landlock or seccomp does not work"
            raise SandboxUnavailable(
                msg, remedy="use a kernel with Landlock, or --unsafe-exec for code you trust"
            )

    def _require_price(self, model: "BaseChatModel") -> None:
        """Raise ConfigError when money is limited and the model has no price."""
        from cuda_harness.agents.llm.ledger import FREE_MODELS
        from cuda_harness.agents.llm.providers import model_label

        label = model_label(model)
        if "max_usd" in self.order.limits and label not in {*self.settings.provider.prices, *FREE_MODELS}:
            msg = f"--max-usd is set, but model {label!r} has no price: money could not be counted"
            raise ConfigError(msg, remedy=f'set [provider.prices."{label}"] in cuda-harness.toml')

    def _guarded(self, work: Work, purse: Purse) -> Row | None:
        """Return a finished result, `None` when it was not run; an error of ours becomes a result that says so."""
        if self.cancelled.is_set():
            return None
        task, level, sample = work
        before = self.results.row(task.id, level, sample)
        budget = purse.draw(self.order.jobs, before=before)
        if budget is None:
            return None
        row = empty_row(task, level, sample)
        began, outside = time.monotonic(), False
        try:
            self._one(row, work, budget)
        except ToolchainError:
            self.cancelled.set()  # before the next task starts
            raise
        except BudgetExhausted:
            row["status"] = CUT
        except ModelUnavailable as exc:
            row |= {"status": UNAVAILABLE, "detail": exc.message[:1000]}
        except ModelError as exc:
            row |= {"status": "model_failed", "detail": exc.message[:1000], **_NOTHING}
        except Exception as exc:  # noqa: BLE001 - one task's bug of ours must not end the suite
            row |= {"status": "error", "detail": f"{type(exc).__name__}: {exc}"[:1000]}
            outside = isinstance(exc, ConfigError)  # a key that is refused, say: every task will end so
        outside = outside or row["status"] == UNAVAILABLE
        if self.cancelled.is_set():
            return None
        row["seconds"] = round(time.monotonic() - began, 3)
        purse.settle(budget, row, before=before)
        with self._lock:
            self._failing = self._failing + 1 if outside else 0
            if self._failing >= ENOUGH:
                self.cancelled.set()
        return row

    def _one(self, row: Row, work: Work, budget: Budget) -> None:
        task, level, sample = work
        extra = self.order.clarify.get((task.id, level)) or self.order.clarify.get((task.id, None))
        asking = isinstance(extra, Mapping) and not self.order.baseline
        request = task.request(level, as_text(extra) if extra and not asking else "")
        if extra and not asking:
            row["clarified"] = True
        name = f"{task.id:04d}-{level}-{sample}"
        home = self.results.root / "runs" / name
        settings = self.settings.model_copy(
            update={
                "budget": budget,
                "out": str(home),
                "model": spec_for(self.settings.model or "offline", name),
            }
        )
        if self.order.baseline:
            from cuda_harness.graph.baseline import one_shot

            context = RunContext(settings=settings, cancelled=self.cancelled)
            source = one_shot(row, task, request, context=context, folder=home, gpu=self._gpu_name())  # fmt: skip
            if source is None:
                row |= _NOTHING
                return
            self._keep(row, work, source)
            with tempfile.TemporaryDirectory(prefix="cuda-harness-build-") as folder:
                self._marking.grade(row, task, self._marking.binary(source, (), Path(folder)))
            return
        from cuda_harness.graph import runner

        context = RunContext(
            settings=settings, executor=self._executor(), cancelled=self.cancelled, ask=asking or None
        )  # fmt: skip
        result = gone_on(home, request, context) or runner.generate(request, context=context)
        if result.status == "question" and isinstance(extra, Mapping):
            asked = [str(a["what"]) for a in (result.question or {}).get("assumptions", ())]
            answer = answers_to(asked, extra)
            row["clarified"] = bool(answer)
            result = runner.resume(result.run_dir, context=context, answer=answer)
        self._take(row, work, result, budget)

    def _gpu_name(self) -> str:
        executor = self._executor()
        return "an NVIDIA GPU" if executor.name.startswith("cpu") else f"an {executor.device().name}"

    def _narrowed(self, budget: Budget, detail: str) -> bool:
        """Return whether a budget that is spent, as `detail` says, is less than a run may have by itself."""
        own = self.settings.budget
        return any(
            getattr(budget, name) != getattr(own, name) and repr(name) in detail for name in self.order.limits
        )

    def _take(self, row: Row, work: Work, result: "RunResult", budget: Budget) -> None:
        """Fill a row from a finished run: verdict, spend, program, grade."""
        task = work[0]
        row |= known_of(result, self.results.root)
        detail = str(result.stop.get("detail", ""))
        out_of_budget = result.stop["reason"] == "budget" and result.status != "verified"
        if out_of_budget and self._narrowed(budget, detail):
            row["status"] = CUT
            return
        handed = hand_in(result, task)
        row |= {"status": handed.status, "detail": handed.detail}
        if handed.subject is None or handed.program is None:
            if handed.status not in AGAIN:
                row |= _NOTHING
            return
        self._keep(row, work, handed.program.text)
        with tempfile.TemporaryDirectory(prefix="cuda-harness-build-") as folder:
            candidate = self._marking.candidate(
                handed.subject, handed.files, handed.program.text, handed.program.build, Path(folder)
            )
            self._marking.grade(row, task, candidate)

    def _keep(self, row: Row, work: Work, text: str) -> None:
        from cuda_harness.tools.archive.run_folder import write_atomically

        path = self.results.program_path(*work)
        write_atomically(path, text.encode("utf-8", "replace"))
        row["program"] = str(path.relative_to(self.results.root))

    def _executor(self) -> "Executor":
        """Return this worker's executor; devices are dealt out in turn."""
        found: Executor | None = getattr(self._local, "executor", None)
        if found is None:
            from cuda_harness.tools.execute.registry import executor

            with self._lock:
                if self._spare:
                    found = self._spare.pop()
                else:
                    name = self.order.executors[len(self._executors) % len(self.order.executors)]
                    found = executor(name, settings=self.settings, cancel=self.cancelled)
                    self._executors.append(found)
            self._local.executor = found
        return found


def _progress(row: Row, done: int, total: int, left_s: float) -> str:
    func = {True: "functional", False: "not functional", None: "not graded"}[row["func"]]
    minutes, seconds = divmod(int(left_s), 60)
    return (
        f"[{done}/{total}, {minutes}:{seconds:02d} left] {row['kind']} (id {row['id']}) level {row['level']} sample "
        f"{row['sample']}: {row['status']}, {func}" + (f" ({' '.join(row['detail'].split())[:100]})" if row["detail"] and not row["func"] else "")
    )  # fmt: skip
