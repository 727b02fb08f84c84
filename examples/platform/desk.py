"""A help desk with a graph and a state of its own; CUDA-Harness is one of its nodes, or one of its model's tools.

    python examples/platform/desk.py node "y = 2*x for a float32 vector x of 1000 elements"
    python examples/platform/desk.py tool "y = 2*x for a float32 vector x of 1000 elements"

Without a key the built-in templates write the kernel; CUDA_HARNESS_MODEL or OPENAI_API_KEY choose another model.
"""

import argparse
import operator
import os
from pathlib import Path
from typing import Annotated, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import BaseTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from cuda_harness import RunContext, as_node, as_tool
from cuda_harness.graph.configure import load_settings


class Ticket(TypedDict, total=False):
    """What the desk knows of a request; no name in it is the harness's."""

    customer: str
    wish: str
    log: Annotated[list[str], operator.add]
    outcome: str
    evidence: str


def harness(out: Path) -> RunContext:
    """Settings as everywhere (environment, cuda-harness.toml), results below `out`."""
    return RunContext(settings=load_settings({}, environment=os.environ), out=out)


def greet(ticket: Ticket) -> Ticket:
    return {"log": [f"{ticket['customer']} asks: {ticket['wish']}"]}


def close(ticket: Ticket) -> Ticket:
    return {"log": [f"closed: {ticket['outcome']}"]}


def desk_with_node(out: Path) -> CompiledStateGraph:
    """The harness as a subgraph: the desk's checkpointer keeps its state, the desk's stream carries its events."""
    builder = StateGraph(Ticket)
    builder.add_node("greet", greet)
    builder.add_node(
        "kernel",
        as_node(
            request=lambda ticket: ticket["wish"],
            update=lambda result: {"outcome": result.status, "evidence": str(result.run_dir)},
            context=harness(out),
        ),
    )
    builder.add_node("close", close)
    builder.add_edge(START, "greet")
    builder.add_edge("greet", "kernel")
    builder.add_edge("kernel", "close")
    builder.add_edge("close", END)
    return builder.compile(checkpointer=InMemorySaver())


class Clerk(BaseChatModel):
    """Stands in for a model that calls tools: asks for the kernel, then passes on what it was told."""

    tool_name: str = ""

    @property
    def _llm_type(self) -> str:
        return "clerk"

    def bind_tools(self, tools: list[BaseTool], **_options: object) -> "Clerk":
        return self.model_copy(update={"tool_name": tools[0].name})

    def _generate(self, messages: list[BaseMessage], *_args: object, **_options: object) -> ChatResult:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            reply = AIMessage(str(last.content))
        else:
            call = {"name": self.tool_name, "args": {"request": str(last.content)}, "id": "1"}
            reply = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=reply)])


def desk_with_tool(out: Path, model: BaseChatModel | None = None) -> CompiledStateGraph:
    """The harness as a tool of a chat model; any model that calls tools takes the clerk's place."""
    tool = as_tool(harness(out))
    bound = (model or Clerk()).bind_tools([tool])
    builder = StateGraph(MessagesState)
    builder.add_node("model", lambda state: {"messages": [bound.invoke(state["messages"])]})
    builder.add_node("tools", ToolNode([tool]))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", tools_condition)
    builder.add_edge("tools", "model")
    return builder.compile()


def main() -> None:
    parser = argparse.ArgumentParser(description="A help desk that has CUDA kernels written.")
    parser.add_argument("way", choices=["node", "tool"])
    parser.add_argument("wish")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    given = parser.parse_args()
    if given.way == "tool":
        found = desk_with_tool(given.out).invoke({"messages": [HumanMessage(given.wish)]})
        print(found["messages"][-1].content)
        return
    config = {"configurable": {"thread_id": "ticket-1"}}
    desk = desk_with_node(given.out)
    start = {"customer": "Ada", "wish": given.wish}
    for _where, mode, chunk in desk.stream(start, config, stream_mode=["custom", "updates"], subgraphs=True):
        if mode == "custom":
            print(f"  {chunk['event'].replace('_', ' ')}")
    ticket = desk.get_state(config).values
    print("\n".join([*ticket["log"], f"evidence: {ticket['evidence']}"]))


if __name__ == "__main__":
    main()
