"""The Evolver: what to do next, by rules over attempts, verdicts and times."""

from langgraph.runtime import Runtime

from cuda_harness.agents.context import RunContext
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.budget import Stop
from cuda_harness.state.harness import Decision, EvolverView, StateUpdate, node
from cuda_harness.state.lineage import best_verified, correctness_step, latest
from cuda_harness.state.results import TimingNotMeasured


@node
def choose_next(state: EvolverView, runtime: Runtime[RunContext]) -> StateUpdate:
    """Return the decision: stop at a verified kernel, else repair, redesign or give up by the correctness budget."""
    update = decide(state)
    decision = update.get("decision")
    services = runtime.context.services(state.run_dir)
    services.emit(
        "next_chosen",
        action=decision.action if decision else None,
        strategy=decision.strategy if decision else None,
    )
    return update


def decide(state: EvolverView) -> StateUpdate:
    """Return the same decision for the same attempts, whatever order they came in."""
    best = best_verified(state.attempts)
    if best is not None:
        return {
            "decision": Decision(action="stop", parent=best.id, strategy=best.strategy, branch=best.branch),
            "stop": Stop(reason="verified", detail=why_no_round(best)),
        }
    last = latest(state.attempts)
    step = correctness_step(state.attempts, state.budget)
    if last is None:
        return {"decision": Decision(action="write")}
    if step == "repair":
        return {"decision": Decision(action="repair", parent=last.id, strategy="repair", branch=last.branch)}
    if step == "redesign":
        return {"decision": Decision(action="redesign", strategy="redesign", branch=last.branch)}
    return {"decision": Decision(action="stop", parent=last.id, strategy=last.strategy, branch=last.branch)}


def why_no_round(best: Attempt) -> str:
    """Return why the search ends at this kernel."""
    found = f"attempt {best.id} passed the whole ladder"
    if isinstance(best.timing, TimingNotMeasured):
        return f"{found}; no round for speed, since time was not measured: {best.timing.reason}"
    return found
