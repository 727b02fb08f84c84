"""Names of the nodes, the two that open and close a run, and the guard around every role."""

import enum
import functools
from collections.abc import Callable
from typing import Any

from langgraph.runtime import Runtime

from cuda_harness.agents.context import RunContext
from cuda_harness.graph.outcome import deliver
from cuda_harness.graph.session import open_run
from cuda_harness.graph.tracing import attach
from cuda_harness.state.budget import Stop, StopReason
from cuda_harness.state.errors import (
    BudgetExhausted,
    ConfigError,
    HarnessError,
    ModelError,
    ModelRefused,
    ToolchainError,
)
from cuda_harness.state.harness import HarnessState, StateUpdate, check_update
from cuda_harness.state.rounds import BranchEnd


class Node(enum.StrEnum):
    """Every node of the graph."""

    INTAKE = "intake"
    PLANNER = "planner"
    QUESTION = "question"
    SYNTHESIZER = "synthesizer"
    CODER = "coder"
    VERIFIER = "verifier"
    TUNER = "tuner"
    PROFILER = "profiler"
    EVOLVER = "evolver"
    BRANCH = "branch"
    DELIVER = "deliver"


NodeFunction = Callable[[Any, Runtime[RunContext]], StateUpdate]


def take_request(state: HarnessState, runtime: Runtime[RunContext]) -> StateUpdate:
    """Return run id, folder, target and budget; opens a run folder unless the caller did."""
    context = runtime.context or RunContext()
    settings = context.effective
    if state.run_dir:
        attach(state.run_dir, settings)
        services = context.services(state.run_dir)
        return check_update({"target": services.target, "budget": settings.budget, "ask": settings.ask})
    folder, request = open_run(state.request, settings)
    attach(str(folder.root), settings)
    services = context.services(str(folder.root))
    services.emit("run_started", request=request[:200])
    return check_update(
        {
            "request": request,
            "run_id": services.run_id,
            "run_dir": str(folder.root),
            "target": services.target,
            "budget": settings.budget,
            "ask": settings.ask,
        }
    )


def write_result(state: HarnessState, runtime: Runtime[RunContext]) -> StateUpdate:
    """Return the result: best kernel delivered as a bundle, `result.json` written."""
    context = runtime.context or RunContext()
    services = context.services(state.run_dir)
    if context.cancelled.is_set() and state.stop is None:
        state = state.model_copy(update={"stop": INTERRUPTED})
    result = deliver(state, services)
    services.emit("run_finished", status=result.status, stop=state.stop.reason if state.stop else None)
    context.close(state.run_dir)
    return check_update({"result": result, "spend": services.ledger.spend(), "stop": state.stop})


INTERRUPTED = Stop(reason="interrupted", detail="the run was cancelled")
_REASONS: tuple[tuple[type[HarnessError], StopReason], ...] = (
    (BudgetExhausted, "budget"),
    (ModelRefused, "refused"),
    (ModelError, "model_failed"),
    (ToolchainError, "environment"),
)


def stop_of(error: HarnessError) -> Stop | None:
    """Return the orderly stop that `error` means, `None` when it is not ours to stop on."""
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return Stop(reason=reason, detail=str(error)[:8_000])
    return None


def guarded(function: NodeFunction) -> NodeFunction:
    """Turn a spent budget, a failed model and a missing tool into an orderly stop.

    The run then still delivers its best kernel. Bugs (StateError) and usage errors pass through.
    """

    @functools.wraps(function)
    def run(state: Any, runtime: Runtime[RunContext]) -> StateUpdate:  # noqa: ANN401 - each role has its own view
        given: object = runtime.context  # whoever embeds the graph may hand over anything
        if not isinstance(given, RunContext):
            msg = f"the graph got {type(given).__name__} as its context"
            raise ConfigError(
                msg, remedy="invoke it with context=RunContext(...), also from a node of your own graph"
            )
        if getattr(state, "run_dir", ""):  # a resumed run does not pass the intake again
            attach(state.run_dir, runtime.context.effective)
        if runtime.context.cancelled.is_set():
            return {"stop": INTERRUPTED}
        try:
            return function(state, runtime)
        except HarnessError as exc:
            stop = stop_of(exc)
            if stop is None:
                raise
            services = runtime.context.services(state.run_dir)
            services.emit("run_stopping", reason=stop.reason, detail=stop.detail[:500])
            return {"stop": stop}

    return run


def guarded_branch(function: NodeFunction) -> NodeFunction:
    """Turn what would stop a run into the end of one branch: its siblings go on, and the join decides.

    A refusal concerns only the idea; every other stop is handed to the Evolver as the run's.
    """

    @functools.wraps(function)
    def run(state: Any, runtime: Runtime[RunContext]) -> StateUpdate:  # noqa: ANN401 - each role has its own view
        name = state.plan.name
        if runtime.context.cancelled.is_set():
            return {"ended": {name: BranchEnd(reason="stopped", stop=INTERRUPTED)}}
        try:
            return function(state, runtime)
        except HarnessError as exc:
            stop = stop_of(exc)
            if stop is None:
                raise
            services = runtime.context.services(state.run_dir)
            services.emit("branch_ended", branch=name, reason=stop.reason, detail=stop.detail[:500])
            if stop.reason == "refused":
                return {"ended": {name: BranchEnd(reason="refused", detail=stop.detail[:4_000])}}
            return {"ended": {name: BranchEnd(reason="stopped", detail=stop.detail[:4_000], stop=stop)}}

    return run
