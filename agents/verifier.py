"""The Verifier: compiles and validates the newest kernel; tools only, no model."""

from langgraph.runtime import Runtime

from cuda_harness.agents.context import RunContext
from cuda_harness.agents.judging import suite_of, turn
from cuda_harness.agents.tracing import tool_ran
from cuda_harness.state.errors import StateError
from cuda_harness.state.harness import StateUpdate, VerifierView, node
from cuda_harness.state.lineage import latest
from cuda_harness.state.results import StageResult


@node
def judge_kernel(state: VerifierView, runtime: Runtime[RunContext]) -> StateUpdate:
    """Return the newest attempt with its verdict."""
    from cuda_harness.tools.verify.ladder import judge

    services = runtime.context.services(state.run_dir)
    attempt = latest(state.attempts)
    if attempt is None or state.ir is None or state.suite is None:
        msg = "the verifier was reached without a kernel, an IR or a suite"
        raise StateError(msg)
    services.ledger.require_time()
    folder = services.folder
    suite = suite_of(services, state.ir)

    def on_stage(stage: StageResult) -> None:
        services.emit(
            "stage_finished",
            attempt=attempt.id,
            stage=stage.name,
            status=stage.status,
            detail=stage.detail[:200],
        )
        if stage.status != "not_measured":
            tool_ran(
                f"verify.{stage.name}", seconds=stage.seconds, inputs={"attempt": attempt.id, "stage": stage.name},
                outputs={"status": stage.status, "detail": stage.detail, "covered": stage.covered},
                metadata={"attempt": attempt.id, "stage": stage.name, "files": folder.attempt_dir(attempt.id)},
            )  # fmt: skip

    with turn(services):
        verdict = judge(
            folder.load_kernel(attempt.id), state.ir, suite, executor=services.executor, compiler=services.compiler,
            target=state.target or services.target, seed=services.seed, max_seconds=services.settings.ladder_seconds,
            checker=services.check_executor, on_stage=on_stage,
        )  # fmt: skip
    place = folder.attempt_dir(attempt.id)
    folder.write_text(f"{place}/verdict.json", verdict.to_json())
    folder.write_json(
        f"{place}/build.json",
        {"target": verdict.target, "kernels": [k.model_dump() for k in verdict.kernels]},
    )
    failure = verdict.failure
    services.emit(
        "kernel_judged", attempt=attempt.id, outcome=verdict.outcome, failure=failure.class_ if failure else None,
        message=failure.message[:300] if failure else None,
    )  # fmt: skip
    return {"attempts": {attempt.id: attempt.model_copy(update={"verdict": verdict})}}
