"""The tracer of the graph: every invocation writes its run's `trace.jsonl`, alone or embedded in another graph.

It is bound to the compiled graph, so that nobody who embeds it has to remember it. The folder of a run is known only
when its first node has opened it; until then the recorder keeps what came before.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.tracers.langchain import LangChainTracer

from cuda_harness.tools.trace.events import redactor
from cuda_harness.tools.trace.recorder import TraceRecorder

if TYPE_CHECKING:
    from langchain_core.tracers.schemas import Run
    from langsmith import Client

    from cuda_harness.state.settings import Settings

PROJECT = "cuda-harness"
"""LangSmith project where the environment names none."""
_PATIENCE_MS = (3_000, 5_000)
"""To connect to LangSmith, and to wait for its answer."""


class RunTracer(LangChainTracer):
    """Hands every run of the graph to a recorder.

    Embedded in a graph that is traced, the root lies in its parent's trace, below the node that called it, and the
    parent's tracer does the uploading. Embedded in one that is not, it keeps its parent's run id. Alone, with
    LangSmith's variables set, the same runs are uploaded.
    """

    client: TraceRecorder

    def __init__(self, *, client: TraceRecorder | None = None, **kwargs: Any) -> None:  # noqa: ANN401 - LangChain's own
        kwargs.setdefault("project_name", _project())
        super().__init__(client=client or TraceRecorder(), **kwargs)

    def bind(self, run_id: UUID, run_dir: str, settings: "Settings") -> None:
        """Name the folder of the trace that `run_id` is part of; idempotent."""
        self.client.bind(run_id, Path(run_dir), redactor(settings))

    def _start_trace(self, run: "Run") -> None:
        from langsmith.run_helpers import get_current_run_tree

        outer = run.parent_run_id
        if outer is not None and self.client.knows(outer):
            super()._start_trace(run)
            run.extra.pop("__disabled", None)  # it switches the upload off, not the run's own file
            return
        above = get_current_run_tree()
        if above is not None and outer is not None:
            self.order_map[outer] = (above.trace_id, above.dotted_order)
        super()._start_trace(run)
        run.extra.pop("__disabled", None)
        run.parent_run_id = outer
        if outer is not None:
            self.order_map.pop(outer, None)
        self.client.open_root(run.id, forward=None if _is_uploaded_anyway() else _uploader())

    def _end_trace(self, run: "Run") -> None:
        super()._end_trace(run)
        self.order_map.pop(run.id, None)
        self.latest_run = None


def attach(run_dir: str, settings: "Settings") -> None:
    """Tell the tracer of the node that calls this where its run's folder lies; without a tracer nothing happens."""
    from langgraph.config import get_config

    try:
        manager = get_config().get("callbacks")
    except RuntimeError:  # outside a graph
        return
    run_id = getattr(manager, "parent_run_id", None)
    if run_id is None:
        return
    for handler in getattr(manager, "handlers", ()):
        if isinstance(handler, RunTracer):
            handler.bind(run_id, run_dir, settings)


def _is_uploaded_anyway() -> bool:
    """Return whether the graph that called this one has a LangSmith tracer, which sees our runs as well."""
    from langchain_core.runnables.config import var_child_runnable_config

    handlers = getattr((var_child_runnable_config.get() or {}).get("callbacks"), "handlers", ())
    return any(isinstance(h, LangChainTracer) and not isinstance(h, RunTracer) for h in handlers)


def _uploader() -> "Client | None":
    """Return a client of LangSmith's with a patience that suits the end of a run, `None` where it is not set up."""
    from langsmith import Client
    from langsmith.utils import tracing_is_enabled
    from urllib3.util import Retry

    if tracing_is_enabled() is not True:
        return None
    again = Retry(total=1, read=0, backoff_factor=0.2, status_forcelist=(429, 500, 502, 503, 504), raise_on_status=False,
                  allowed_methods=None, respect_retry_after_header=False)  # fmt: skip
    return Client(timeout_ms=_PATIENCE_MS, retry_config=again)


def _project() -> str:
    from langsmith.utils import get_tracer_project

    return get_tracer_project(return_default_value=False) or PROJECT
