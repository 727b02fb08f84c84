"""The end of a run: the best kernel as a bundle, and `result.json`."""

from typing import TYPE_CHECKING, Any

from cuda_harness.graph.session import versions
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.budget import Stop
from cuda_harness.state.harness import HarnessState, Result
from cuda_harness.state.lineage import base_of, best_unverified, furthest, latest
from cuda_harness.state.results import REQUIRED, Timing
from cuda_harness.tools.evolve.population import rounds_as_rows

if TYPE_CHECKING:
    from cuda_harness.agents.context import Services

SCHEMA = "cuda-harness/result/1"


def stop_reason(state: HarnessState) -> Stop:
    """Return why the run ends: what a node said, else what the attempts tell."""
    if state.stop is not None:
        return state.stop
    if base_of(state.attempts, state.rounds) is not None:
        return Stop(reason="verified", detail="the kernel passed the whole ladder")
    last = latest(state.attempts)
    if last is not None and last.verdict is not None and last.verdict.failure is not None:
        failure = last.verdict.failure
        if failure.class_ in {"oracle", "weak_suite"}:
            return Stop(
                reason="oracle" if failure.class_ == "oracle" else "weak_suite", detail=failure.message[:4000]
            )
        if failure.class_ == "environment":
            return Stop(reason="environment", detail=failure.message[:4000])
        if not failure.is_candidates:
            detail = f"undecided: {failure.class_}: {failure.message}"
            return Stop(reason="no_correct_kernel", detail=detail[:4000])
    if last is not None and last.verdict is not None and last.status == "undecided":
        left = [s for s in last.verdict.stages if s.name in REQUIRED and s.status != "passed"]
        detail = "undecided: " + "; ".join(f"{s.name} was not measured: {s.detail}" for s in left)
        return Stop(reason="no_correct_kernel", detail=detail[:4000])
    return Stop(reason="no_correct_kernel", detail="the correctness budget is spent")


def deliver(state: HarnessState, services: "Services") -> Result:
    """Write `best/` and `result.json` and return the result; idempotent.

    Verified beats undecided, undecided beats nothing. When nothing is deliverable the attempt that climbed
    highest is named in the document, so that its verdict is found.
    """
    best = base_of(state.attempts, state.rounds)
    status = "verified" if best else "failed"
    if best is None:
        best = best_unverified(state.attempts)
        status = "unverified" if best else "failed"
    shown = best or furthest(state.attempts)
    kernel = _save_best(state, services, best) if best else None
    timing = shown.timing if shown is not None and isinstance(shown.timing, Timing) else None
    if timing is not None and best is not None and state.ir is not None:
        from cuda_harness.agents.profiler import with_libraries

        timing = with_libraries(timing, state.ir, services)
    document = {
        "schema": SCHEMA,
        "run_id": state.run_id or services.run_id,
        "run_dir": str(services.folder.root),
        "status": status,
        "request": state.request,
        "model": _model_names(services),
        "executor": _executor_name(shown, services),
        "target": state.target,
        "kernel": kernel,
        "attempt": shown.id if shown else None,
        "verdict": shown.verdict.model_dump(mode="json", by_alias=True) if shown and shown.verdict else None,
        "timing": timing.model_dump(mode="json") if timing is not None else None,
        "profile": shown.profile.model_dump(mode="json") if shown and shown.profile else None,
        "attempts": [_row(a) for a in state.attempts.values()],
        "branches": rounds_as_rows(state.rounds, state.attempts, state.ended),
        "assumptions": [a.model_dump(mode="json") for a in state.ir.assumptions] if state.ir else [],
        "stop": stop_reason(state).model_dump(mode="json"),
        "usage": services.ledger.spend().model_dump(mode="json"),
        "versions": versions(),
    }
    services.folder.write_json("result.json", document)
    _report(services)
    return Result(
        status=status,
        best=best.id if best else None,
        run_dir=str(services.folder.root),
        document=document,
    )


def _report(services: "Services") -> None:
    """Write `report.html`; a fault in showing a run is told and never costs its result."""
    from cuda_harness.graph.report.page import write_report

    try:
        write_report(services.folder.root)
    except Exception as exc:  # noqa: BLE001 - the result is on disk already, and is worth more than its picture
        services.emit("report_failed", error=f"{type(exc).__name__}: {exc}"[:500])


def waiting(state: HarnessState, question: dict[str, Any], services: "Services") -> Result:
    """Return the result of a run that waits for the user; nothing is delivered yet."""
    document = {
        "schema": SCHEMA,
        "run_id": services.run_id,
        "run_dir": str(services.folder.root),
        "status": "question",
        "request": state.request,
        "model": _model_names(services),
        "executor": _executor_name(None, services),
        "target": state.target,
        "kernel": None,
        "attempt": None,
        "verdict": None,
        "timing": None,
        "profile": None,
        "attempts": [],
        "branches": [],
        "assumptions": question["assumptions"],
        "question": question,
        "stop": {"reason": "question", "detail": "the run waits for an answer to its assumptions"},
        "usage": services.ledger.spend().model_dump(mode="json"),
        "versions": versions(),
    }
    services.emit("question_put", assumptions=len(question["assumptions"]))
    return Result(status="question", run_dir=str(services.folder.root), document=document)


def _save_best(state: HarnessState, services: "Services", best: Attempt) -> dict[str, Any]:
    folder = services.folder
    path = folder.save_best(
        best.id,
        ir=state.ir.to_json() if state.ir else "",
        reference=folder.read_text("suite/reference.py"),
        inputs=folder.read_text("suite/inputs.json") if folder.exists("suite/inputs.json") else None,
    )
    if best.verdict is not None:
        folder.write_text("best/verdict.json", best.verdict.to_json())
    return {"path": str(path / "kernel.cu"), "plan": str(path / "plan.json"), "sha256": best.sha256}


def _row(attempt: Attempt) -> dict[str, Any]:
    return {
        "id": attempt.id,
        "parent": attempt.parent,
        "strategy": attempt.strategy,
        "status": attempt.status,
        "failure_class": attempt.failure_class,
        "median_us": attempt.median_us,
    }


def _model_names(services: "Services") -> str:
    given = services.context.model
    if given is not None and not isinstance(given, str):
        return str(getattr(given, "model_name", None) or type(given).__name__)
    return services.settings.model or "offline"


def _executor_name(shown: Attempt | None, services: "Services") -> str:
    if shown is not None and shown.verdict is not None:
        return shown.verdict.executor
    given = services.context.executor
    return given.name if given is not None and not isinstance(given, str) else services.settings.executor
