"""The harness inside a graph that knows nothing of it: another state, another context, its own checkpointer."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from cuda_harness.agents.context import RunContext
from cuda_harness.state.harness import HarnessState

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig, RunnableLambda

    from cuda_harness.graph.result import RunResult

S = TypeVar("S")


class Embedded:
    """Runs of the graph below whatever calls it; each run has services and a cancel event of its own.

    A run inherits its caller's callbacks, checkpointer and streams through `config`. Nothing of the process is
    changed: no signal handler, no logger, no environment. When the caller is cancelled, the run's children end.
    """

    def __init__(self) -> None:
        from cuda_harness.graph.build import build_graph

        self._graph = build_graph()

    def invoke(
        self, request: str, context: RunContext, config: "RunnableConfig | None" = None
    ) -> "RunResult":
        """Return the result for `request`; raises ConfigError as `generate` does."""
        own = context.for_one_run()
        try:
            values = self._graph.invoke({"request": request}, _bounded(config, own), context=own)
        except BaseException:
            own.cancelled.set()
            raise
        finally:
            own.close()
        return _result(values, own)

    async def ainvoke(
        self, request: str, context: RunContext, config: "RunnableConfig | None" = None
    ) -> "RunResult":
        """Return what `invoke` returns without blocking the loop."""
        own = context.for_one_run()
        try:
            values = await self._graph.ainvoke({"request": request}, _bounded(config, own), context=own)
        except BaseException:
            own.cancelled.set()
            raise
        finally:
            own.close()
        return _result(values, own)


def as_node(
    *,
    request: Callable[[S], str],
    update: Callable[["RunResult"], Mapping[str, Any]],
    context: RunContext | Callable[[S], RunContext],
) -> "RunnableLambda[S, Mapping[str, Any]]":
    """Return a node that a graph with another state adds under a name of its own.

    Args:
        request: The words to work on, taken from the outer state.
        update: The outer state's update, made of the result.
        context: Settings and models of every run, or a function of the outer state that gives them.
    """
    from langchain_core.runnables import RunnableConfig, RunnableLambda

    embedded = Embedded()

    def of(state: S) -> RunContext:
        return context if isinstance(context, RunContext) else context(state)

    def run(state: S, config: RunnableConfig) -> Mapping[str, Any]:
        return update(embedded.invoke(request(state), of(state), config))

    async def arun(state: S, config: RunnableConfig) -> Mapping[str, Any]:
        return update(await embedded.ainvoke(request(state), of(state), config))

    return RunnableLambda(run, arun, name="cuda_harness_node")


def checkpoint_types() -> tuple[tuple[str, str], ...]:
    """Return the types that a run puts into its caller's checkpoints.

    For the caller's serializer: `JsonPlusSerializer(allowed_msgpack_modules=checkpoint_types())`. Without it LangGraph
    warns of each type, and under LANGGRAPH_STRICT_MSGPACK a resumed run would get plain mappings.
    """
    from cuda_harness.graph.runner import _STATE_TYPES

    return _STATE_TYPES


def _bounded(config: "RunnableConfig | None", context: RunContext) -> "RunnableConfig":
    """Return the caller's config with the recursion limit that follows from the budget, not the caller's own."""
    return {**(config or {}), "recursion_limit": context.effective.budget.recursion_limit}


def _result(values: Mapping[str, Any], context: RunContext) -> "RunResult":
    from cuda_harness.graph.result import RunResult

    return RunResult(HarnessState.model_validate(values), context)
