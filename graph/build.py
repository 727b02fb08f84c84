"""The graph: six roles over one typed state, edges conditional on the state."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel

from cuda_harness.agents.coder import write_branch_kernel, write_kernel
from cuda_harness.agents.context import RunContext
from cuda_harness.agents.evolver import choose_next
from cuda_harness.agents.planner import plan_kernel
from cuda_harness.agents.profiler import profile_kernel
from cuda_harness.agents.synthesizer import synthesize_suite
from cuda_harness.agents.tuner import tune_kernel
from cuda_harness.agents.verifier import judge_kernel
from cuda_harness.graph import routers
from cuda_harness.graph.asking import put_question
from cuda_harness.graph.nodes import Node, NodeFunction, guarded, guarded_branch, take_request, write_result
from cuda_harness.state.harness import (
    BranchCoderView,
    BranchOutput,
    BranchProfilerView,
    BranchState,
    BranchTunerView,
    BranchVerifierView,
    CoderView,
    EvolverView,
    HarnessState,
    PlannerView,
    ProfilerView,
    QuestionView,
    SynthesizerView,
    TunerView,
    VerifierView,
)

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver
    from langgraph.graph.state import CompiledStateGraph

ROLE_NODES: dict[Node, tuple[NodeFunction, type[BaseModel]]] = {
    Node.PLANNER: (plan_kernel, PlannerView),
    Node.QUESTION: (put_question, QuestionView),
    Node.SYNTHESIZER: (synthesize_suite, SynthesizerView),
    Node.CODER: (write_kernel, CoderView),
    Node.VERIFIER: (judge_kernel, VerifierView),
    Node.TUNER: (tune_kernel, TunerView),
    Node.PROFILER: (profile_kernel, ProfilerView),
    Node.EVOLVER: (choose_next, EvolverView),
}
"""Each role with the only channels it can read."""

BRANCH_NODES: dict[Node, tuple[NodeFunction, type[BaseModel]]] = {
    Node.CODER: (write_branch_kernel, BranchCoderView),
    Node.VERIFIER: (judge_kernel, BranchVerifierView),
    Node.TUNER: (tune_kernel, BranchTunerView),
    Node.PROFILER: (profile_kernel, BranchProfilerView),
}
"""The roles of one branch, in a graph of its own with channels of its own."""

EDGES: dict[Node, tuple[Callable[[HarnessState], Any], tuple[Node, ...]]] = {
    Node.INTAKE: (routers.after_intake, (Node.PLANNER, Node.SYNTHESIZER, Node.DELIVER)),
    Node.PLANNER: (routers.after_planner, (Node.QUESTION, Node.SYNTHESIZER, Node.DELIVER)),
    Node.QUESTION: (routers.after_question, (Node.PLANNER, Node.SYNTHESIZER, Node.DELIVER)),
    Node.SYNTHESIZER: (routers.after_synthesizer, (Node.CODER, Node.DELIVER)),
    Node.CODER: (routers.after_coder, (Node.VERIFIER, Node.CODER, Node.DELIVER)),
    Node.VERIFIER: (routers.after_verifier, (Node.CODER, Node.TUNER, Node.PROFILER, Node.DELIVER)),
    Node.TUNER: (routers.after_tuner, (Node.VERIFIER, Node.PROFILER, Node.DELIVER)),
    Node.PROFILER: (routers.after_profiler, (Node.EVOLVER, Node.DELIVER)),
    Node.EVOLVER: (routers.after_evolver, (Node.CODER, Node.BRANCH, Node.DELIVER)),
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
    builder.add_node(Node.BRANCH, make_branch_builder().compile(name="branch"))
    builder.add_edge(Node.BRANCH, Node.EVOLVER)
    builder.add_node(Node.DELIVER, write_result)
    builder.add_edge(START, Node.INTAKE)
    for name, (router, targets) in EDGES.items():
        builder.add_conditional_edges(name, router, {str(target): target for target in targets})
    builder.add_edge(Node.DELIVER, END)
    return builder


def make_branch_builder() -> "StateGraph[BranchState, RunContext, BranchState, BranchOutput]":
    """Return the uncompiled graph of one branch: coder, verifier, repair, profiler."""
    builder = StateGraph(BranchState, context_schema=RunContext, output_schema=BranchOutput)
    for name, (function, view) in BRANCH_NODES.items():
        builder.add_node(name, _node(guarded_branch(function)), input_schema=view)
    builder.add_conditional_edges(
        START, routers.branch_start,
        {"coder": Node.CODER, "verifier": Node.VERIFIER, "tuner": Node.TUNER, "profiler": Node.PROFILER, "end": END},
    )  # fmt: skip
    builder.add_conditional_edges(
        Node.CODER, routers.branch_after_coder,
        {"verifier": Node.VERIFIER, "coder": Node.CODER, "end": END},
    )  # fmt: skip
    builder.add_conditional_edges(
        Node.VERIFIER, routers.branch_after_verifier,
        {"coder": Node.CODER, "tuner": Node.TUNER, "profiler": Node.PROFILER, "end": END},
    )  # fmt: skip
    builder.add_conditional_edges(
        Node.TUNER, routers.branch_after_tuner,
        {"verifier": Node.VERIFIER, "profiler": Node.PROFILER, "end": END},
    )  # fmt: skip
    builder.add_edge(Node.PROFILER, END)
    return builder


def build_graph(
    checkpointer: "BaseCheckpointSaver[Any] | None" = None,
) -> "CompiledStateGraph[Any, Any, Any, Any]":
    """Return the compiled graph: without a checkpointer to embed it, with one to keep state.

    Invoke it with `{"request": "..."}` and `context=RunContext(...)`; the last state holds `result`. Each invocation
    writes its own `trace.jsonl` below the run that called it.
    """
    from cuda_harness.graph.tracing import RunTracer

    compiled = make_builder().compile(checkpointer=checkpointer, name="cuda_harness")
    return compiled.with_config(callbacks=[RunTracer()])
