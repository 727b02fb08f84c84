"""The graph: six roles over one typed state, edges conditional on the state."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel

from cuda_harness.agents.coder import write_kernel
from cuda_harness.agents.context import RunContext
from cuda_harness.agents.evolver import choose_next
from cuda_harness.agents.planner import plan_kernel
from cuda_harness.agents.profiler import profile_kernel
from cuda_harness.agents.synthesizer import synthesize_suite
from cuda_harness.agents.verifier import judge_kernel
from cuda_harness.graph import routers
from cuda_harness.graph.nodes import Node, NodeFunction, guarded, take_request, write_result
from cuda_harness.state.harness import (
    CoderView,
    EvolverView,
    HarnessState,
    PlannerView,
    ProfilerView,
    SynthesizerView,
    VerifierView,
)

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

ROLE_NODES: dict[Node, tuple[NodeFunction, type[BaseModel]]] = {
    Node.PLANNER: (plan_kernel, PlannerView),
    Node.SYNTHESIZER: (synthesize_suite, SynthesizerView),
    Node.CODER: (write_kernel, CoderView),
    Node.VERIFIER: (judge_kernel, VerifierView),
    Node.PROFILER: (profile_kernel, ProfilerView),
    Node.EVOLVER: (choose_next, EvolverView),
}
"""Each role with the only channels it can read."""

EDGES: dict[Node, tuple[Callable[[HarnessState], str], tuple[Node, ...]]] = {
    Node.INTAKE: (routers.after_intake, (Node.PLANNER, Node.SYNTHESIZER, Node.DELIVER)),
    Node.PLANNER: (routers.after_planner, (Node.SYNTHESIZER, Node.DELIVER)),
    Node.SYNTHESIZER: (routers.after_synthesizer, (Node.CODER, Node.DELIVER)),
    Node.CODER: (routers.after_coder, (Node.VERIFIER, Node.CODER, Node.DELIVER)),
    Node.VERIFIER: (routers.after_verifier, (Node.CODER, Node.PROFILER, Node.DELIVER)),
    Node.PROFILER: (routers.after_profiler, (Node.EVOLVER, Node.DELIVER)),
    Node.EVOLVER: (routers.after_evolver, (Node.CODER, Node.DELIVER)),
}
"""Each node's router and the nodes it may name."""


def _node(function: NodeFunction) -> Any:  # noqa: ANN401 - LangGraph's own node types are not generic over views
    return function


def make_builder() -> "StateGraph[HarnessState, RunContext, HarnessState, HarnessState]":
    """Return the uncompiled graph; compile it with the checkpointer, cache and interrupts of your own."""
    builder = StateGraph(HarnessState, context_schema=RunContext)
    builder.add_node(Node.INTAKE, _node(guarded(take_request)))
    for name, (function, view) in ROLE_NODES.items():
        builder.add_node(name, _node(guarded(function)), input_schema=view)
    builder.add_node(Node.DELIVER, write_result)
    builder.add_edge(START, Node.INTAKE)
    for name, (router, targets) in EDGES.items():
        builder.add_conditional_edges(name, router, {str(target): target for target in targets})
    builder.add_edge(Node.DELIVER, END)
    return builder


def build_graph(
    checkpointer: "BaseCheckpointSaver[Any] | None" = None,
) -> "CompiledStateGraph[Any, Any, Any, Any]":
    """Return the compiled graph: without a checkpointer to embed it, with one to keep state.

    Invoke it with `{"request": "..."}` and `context=RunContext(...)`; the last state holds `result`.
    """
    return make_builder().compile(checkpointer=checkpointer, name="cuda_harness")
