"""The Planner: the IR from words, checked as a graph before anyone builds on it."""

from langgraph.runtime import Runtime
from pydantic import ValidationError

from cuda_harness.agents.ask import ReplyKey, ask, render
from cuda_harness.agents.context import RunContext
from cuda_harness.agents.reply import Reply, ReplyFault, pick_json
from cuda_harness.state.harness import PlannerView, StateUpdate, node
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.serde import describe
from cuda_harness.state.targets import facts_of


@node
def plan_kernel(state: PlannerView, runtime: Runtime[RunContext]) -> StateUpdate:
    """Return the IR of the request."""
    services = runtime.context.services(state.run_dir)
    prompt = render(
        services, "roles/planner", request=state.request, target=facts_of(state.target), facts=state.facts
    )
    ir = ask(services, "planner", prompt, parse_ir, key=ReplyKey("planner", ordinal=int(bool(state.facts))))
    services.folder.write_text("ir.json", ir.to_json())
    services.emit(
        "request_planned", name=ir.name, summary=ir.summary[:200], assumptions=len(ir.assumptions),
        sizes=", ".join(f"{d.name}={d.value}" for d in ir.dims),
    )  # fmt: skip
    return {"ir": ir}


def parse_ir(reply: Reply) -> KernelIR:
    """Return the IR in a reply, its data-flow graph checked.

    Raises:
        ReplyFault: Lists what is wrong.
        ModelRefused: If the model says that the request cannot be served.
    """
    from cuda_harness.tools.ir.check import check_ir

    data = pick_json(reply, ("schema", "name", "dims", "tensors", "steps"))
    try:
        ir = KernelIR.model_validate(data)
    except ValidationError as exc:
        msg = "the IR is not valid:\n" + describe(exc)
        raise ReplyFault(msg) from exc
    faults = check_ir(ir)
    if faults:
        msg = "the IR does not hold together:\n" + "\n".join(f"  {fault}" for fault in faults[:12])
        raise ReplyFault(msg)
    return ir
