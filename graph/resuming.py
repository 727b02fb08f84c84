"""Where a stopped run goes on: the node that it stood at, and the branches that were cut off."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cuda_harness.agents.context import RunContext
from cuda_harness.graph.nodes import Node
from cuda_harness.graph.outcome import stop_reason
from cuda_harness.graph.sameness import circumstances, require_same
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.errors import ConfigError
from cuda_harness.state.harness import Decision, HarnessState
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.lineage import base_of, latest
from cuda_harness.state.rounds import BranchEnd, BranchPlan, Round
from cuda_harness.state.serde import sha256
from cuda_harness.state.settings import Settings

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig
    from langgraph.graph.state import CompiledStateGraph

    from cuda_harness.agents.context import Services
    from cuda_harness.tools.archive.run_folder import RunFolder

GO_ON = frozenset({"budget", "model_failed", "environment", "interrupted"})
"""Stops after which a resumed run goes on."""
FINISHED = frozenset({"verified", "no_gain", "strategies_exhausted", "target_reached", "no_correct_kernel"})
"""Stops after which it goes on only when it is given something that it did not have."""
LATER = "went on in a later session"


def goes_on(state: HarnessState, *, given: bool, executor: str | None) -> bool:
    """Return whether a run that ended has something left to do.

    Args:
        state: Its last state.
        given: Whether its budget or its model is another one than it ended with.
        executor: Name of the executor at hand, `None` where there is none.
    """
    reason = stop_reason(state).reason
    return reason in GO_ON or (given and reason in FINISHED) or to_judge_again(state, executor) is not None


def to_judge_again(state: HarnessState, executor: str | None) -> Attempt | None:
    """Return the kernel whose verdict does not hold any more: nobody decided it, or another executor did.

    Once there are rounds their kernels were judged and compared by one executor, and stay as they are.
    """
    last = latest(state.attempts)
    if last is None or last.verdict is None or state.suite is None or executor is None:
        return None
    if last.status == "undecided" and base_of(state.attempts, state.rounds) is None:
        return last
    is_other = last.status == "verified" and last.verdict.executor != executor
    return last if is_other and not state.rounds else None


def go_on_from(state: HarnessState, *, executor: str | None = None) -> tuple[dict[str, Any], Node]:
    """Return the change of a stopped run's state, and the node whose edge leads on from it.

    A round that was cut off is opened again, and only its branches that had no end are sent out. They find their
    finished replies in the run's folder. A search that had come to its end gets a round without branches: patience
    and the names of the Evolver's replies count from there.
    """
    change: dict[str, Any] = {"stop": None, "result": None}
    again = to_judge_again(state, executor)
    if again is not None:
        blank = again.model_copy(update={"verdict": None, "timing": None, "profile": None})
        return {**change, "attempts": {again.id: blank}}, Node.CODER
    cut = cut_off(state)
    if not cut:
        base = base_of(state.attempts, state.rounds)
        if base is not None and state.rounds and stop_reason(state).reason in FINISHED:
            number = max(state.rounds) + 1
            change["rounds"] = {number: Round(number=number, base=base.id, reason=LATER)}
        return change, stood_at(state)
    number = max(state.rounds)
    opened = state.rounds[number].model_copy(update={"contests": (), "winner": None, "reason": ""})
    went_on = BranchEnd(reason="stopped", detail=LATER)
    change |= {
        "rounds": {number: opened},
        "ended": {plan.name: went_on for plan in cut},
        "decision": Decision(action="branch", parent=opened.base, round=number, branches=cut),
    }
    return change, Node.EVOLVER


def cut_off(state: HarnessState) -> tuple[BranchPlan, ...]:
    """Return the branches of the newest round that a stop of the whole run ended."""
    if not state.rounds:
        return ()
    ends = state.ended
    return tuple(
        plan
        for plan in state.rounds[max(state.rounds)].branches
        if plan.name in ends and ends[plan.name].stop is not None
    )


def stood_at(state: HarnessState) -> Node:
    """Return the node whose edge leads on from this state."""
    last = latest(state.attempts)
    if state.ir is None:
        return Node.INTAKE
    if state.suite is None:
        return Node.PLANNER
    if base_of(state.attempts, state.rounds) is not None:
        return Node.PROFILER
    if last is None:
        return Node.SYNTHESIZER
    if last.verdict is None:
        return Node.CODER
    return Node.VERIFIER


# ------------------------------------------------------------------------------------ of a run's folder


def keep_settings(folder: "RunFolder", settings: Settings) -> bool:
    """Note what a resumed run is given from now on; return whether its budget or its model is another one."""
    manifest = folder.read_json("manifest.json")
    before = Settings.model_validate({k: v for k, v in manifest["settings"].items() if v is not None})
    manifest["settings"] = settings.model_dump(mode="json")
    folder.write_json("manifest.json", manifest)
    return settings.budget != before.budget or (settings.model, settings.models) != (
        before.model,
        before.models,
    )


def answered(
    graph: "CompiledStateGraph[Any, Any, Any, Any]",
    config: "RunnableConfig",
    answer: Mapping[str, str] | None,
) -> Any:  # noqa: ANN401 - LangGraph's Command, or nothing
    """Return the answer as the graph takes it, `None` without one; raises ConfigError when nothing was asked."""
    if answer is None:
        return None
    from langgraph.types import Command

    from cuda_harness.graph.asking import check_answer

    asked = graph.get_state(config).interrupts
    if not asked:
        msg = "this run waits for no answer"
        raise ConfigError(msg, remedy="resume it without one")
    # Never a bare mapping: LangGraph takes an empty one for no answer, and others for answers by interrupt id.
    return Command(resume={"answer": check_answer(asked[0].value["assumptions"], answer)})


def require_same_run(
    graph: "CompiledStateGraph[Any, Any, Any, Any]", config: "RunnableConfig", services: "Services"
) -> None:
    """Pass, or refuse to resume under other conditions; raises ConfigError."""
    values = graph.get_state(config).values or {}
    # Before there is a suite the file may be a plan ahead of the checkpoint: the Planner writes it first.
    ir = values.get("ir") if values.get("suite") is not None else None
    planned = KernelIR.model_validate(ir) if ir is not None else None
    try:
        require_same(services, ir_sha256=sha256(json.loads(planned.to_json())) if planned else None)
    except ConfigError:
        services.context.close(str(services.folder.root))
        raise


def reopen(
    graph: "CompiledStateGraph[Any, Any, Any, Any]",
    config: "RunnableConfig",
    folder: "RunFolder",
    context: RunContext,
) -> dict[str, Any] | None:
    """Return the input that makes the graph go on: `None` from its last checkpoint, or a fresh start."""
    snapshot = graph.get_state(config)
    if not snapshot.values:
        request = folder.read_text("request.txt").strip()
        start: dict[str, Any] = {
            "request": request, "run_id": config["configurable"]["thread_id"], "run_dir": str(folder.root),
        }  # fmt: skip
        if folder.exists("ir.json"):
            start["ir"] = KernelIR.read(folder.path("ir.json"))
        return start
    given = keep_settings(folder, context.effective)
    if snapshot.next:
        return None
    state = HarnessState.model_validate(snapshot.values)
    executor = circumstances(context.services(str(folder.root)))["executor"]
    if goes_on(state, given=given, executor=executor):
        more, node = go_on_from(state, executor=executor)
        graph.update_state(config, {"budget": context.effective.budget, **more}, as_node=node)
    return None
