"""Tool runs of a node: what was compiled, executed or measured, as children of the node's own run."""

import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any


def tool_ran(
    name: str,
    *,
    seconds: float,
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    error: str | None = None,
    tags: Sequence[str] = (),
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Record a tool that ended just now, in every trace of the node that calls this; outside a graph nothing happens.

    Args:
        name: Which tool, for example `verify.shapes`.
        seconds: How long it ran; its start follows from it.
        inputs: What it was given, small.
        outputs: What it found, small.
        error: Why it failed, `None` when it did not. A candidate's failure is an output, not an error.
        tags: LangSmith tags.
        metadata: LangSmith metadata.
    """
    from langchain_core.tracers.langchain import LangChainTracer
    from langgraph.config import get_config

    try:
        manager = get_config().get("callbacks")
    except RuntimeError:
        return
    end = datetime.now(UTC)
    run_id = None  # one run has one id, in every trace
    for tracer in getattr(manager, "handlers", ()):
        if not isinstance(tracer, LangChainTracer):
            continue
        node = tracer.run_map.get(str(getattr(manager, "parent_run_id", None)))
        if node is None:
            continue
        child = node.create_child(
            name, run_id=run_id, run_type="tool", inputs=dict(inputs), outputs=dict(outputs), error=error, tags=list(tags),
            start_time=end - timedelta(seconds=seconds), end_time=end, extra={"metadata": dict(metadata or {})},
        )  # fmt: skip
        run_id = child.id
        with contextlib.suppress(Exception):  # a tracer of somebody else's never touches the run
            child.post()
