"""One entry of a suite: the run behind a result, made or gone on with, and what of it is handed in."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda_harness.agents.context import RunContext
from cuda_harness.state.errors import ConfigError
from cuda_harness.tools.benchmarks.binding import bind
from cuda_harness.tools.benchmarks.results import UNAVAILABLE
from cuda_harness.tools.benchmarks.task import Task, TaskTensor

if TYPE_CHECKING:
    from cuda_harness.graph.result import RunResult
    from cuda_harness.state.attempt import Attempt
    from cuda_harness.tools.export.standalone import Standalone
    from cuda_harness.tools.export.subject import Subject

_ANSWERED_BADLY = ("stayed unusable after a repair turn", "does not fit model")
"""What a failed call says when the model is to blame, and not the line to it."""


@dataclass(frozen=True)
class HandedIn:
    """What a run hands in; without a program, `status` and `detail` say why."""

    status: str
    detail: str = ""
    subject: "Subject | None" = None
    program: "Standalone | None" = None
    files: Mapping[str, TaskTensor] = field(default_factory=dict)
    """The task's array of each tensor."""


def known_of(result: "RunResult", root: Path) -> dict[str, Any]:
    """Return the fields of a result that its run tells: spend, verdict, time, and where it lies under `root`."""
    usage, verdict, timing = result.document["usage"], result.verdict, result.timing
    run, root = result.run_dir, root.resolve()
    return {
        **{k: usage.get(k) for k in ("calls", "input_tokens", "output_tokens", "usd", "gpu_seconds")},
        "run": str(run.relative_to(root) if run.is_relative_to(root) else run),
        "outcome": verdict.outcome if verdict else None,
        "failure_class": verdict.failure.class_ if verdict and verdict.failure else None,
        "sol_fraction": timing.sol_fraction if timing else None,
        "median_us": timing.median_us if timing else None,
    }


def hand_in(result: "RunResult", task: Task) -> HandedIn:
    """Return the standalone program of a run's best kernel, reading and writing the task's files."""
    from cuda_harness.tools.archive.run_folder import RunFolder
    from cuda_harness.tools.export.standalone import standalone
    from cuda_harness.tools.export.subject import Subject

    attempt, verdict = submitted(result), result.verdict
    if attempt is None or result.ir is None:
        detail = str(result.stop.get("detail", ""))
        return HandedIn(status_of(str(result.stop["reason"]), detail), detail[:600])
    files = bind(result.ir, task)
    if isinstance(files, str):
        return HandedIn("interface", files)
    subject = Subject(result.ir, RunFolder(result.run_dir).load_kernel(attempt.id), verdict)
    try:
        program = standalone(subject, fixed=True, files={n: f.path for n, f in files.items()})
    except ConfigError as exc:
        return HandedIn("failed", exc.message[:600])
    status = "verified" if verdict is not None and verdict.accepted else "unverified"
    return HandedIn(status, subject=subject, program=program, files=files)


def gone_on(home: Path, request: str, context: RunContext) -> "RunResult | None":
    """Return the result of the newest run under `home`, gone on where it was cut off; `None`: there is none to go on with.

    Its finished calls are not made again. Limits count the whole run, so the seconds that it had before are added.
    """
    from cuda_harness.agents.llm.ledger import Ledger
    from cuda_harness.graph import runner
    from cuda_harness.tools.archive.run_folder import RunFolder

    runs = sorted(path.parent for path in home.glob("*/manifest.json"))
    try:
        if not runs or (runs[-1] / "request.txt").read_text(encoding="utf-8") != request:
            return None
        budget = context.effective.budget
        earlier = Ledger(budget, folder=RunFolder(runs[-1]), clock=lambda: 0.0).spend()
        had = {"max_seconds": earlier.seconds, "max_gpu_seconds": earlier.gpu_seconds or 0.0}
        limits = {name: getattr(budget, name) for name in had}
        budget = budget.model_copy(
            update={n: most + had[n] for n, most in limits.items() if most is not None}
        )
        return runner.resume(runs[-1], context=replace(context, budget=budget))
    except (OSError, ValueError, ConfigError):  # damaged, or made under other conditions: a new run is made
        return None


def status_of(reason: str, detail: str) -> str:
    """Return the status of a run that ended without a kernel."""
    if reason == "model_failed" and not any(words in detail for words in _ANSWERED_BADLY):
        return UNAVAILABLE
    return {"refused": "refused", "model_failed": "model_failed", "environment": "not_run"}.get(
        reason, "failed"
    )


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
