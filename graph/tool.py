"""The harness as a LangChain tool: a model asks in words and gets a short answer with the path of the evidence."""

from typing import TYPE_CHECKING, Any

from cuda_harness.agents.context import RunContext
from cuda_harness.state.errors import ConfigError

if TYPE_CHECKING:
    from langchain_core.tools import StructuredTool

    from cuda_harness.graph.result import RunResult

NAME = "write_cuda_kernel"
DESCRIPTION = (
    "Write a CUDA kernel for what is described in words, compile it, run it and judge it against references that were "
    "derived apart from it. Returns whether the kernel is verified, what was not measured, and where the kernel and its "
    "evidence lie. One call takes seconds to minutes."
)
_MOST_ASSUMPTIONS = 6


def as_tool(
    context: RunContext | None = None, *, name: str = NAME, description: str = DESCRIPTION
) -> "StructuredTool":
    """Return a tool that a tool-calling model or a `ToolNode` can use; its artifact is the result document.

    Args:
        context: Settings, models and folder of every call; `None`: the built-in templates, results below `runs`.
        name: What the model calls it.
        description: What the model reads of it.
    """
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import StructuredTool, ToolException
    from pydantic import BaseModel, Field

    from cuda_harness.graph.embed import Embedded

    class KernelRequest(BaseModel):
        """What a model may ask for."""

        request: str = Field(
            min_length=3,
            description="What the kernel computes: operation, element types, sizes, special cases. Words or formulas.",
        )
        target: str | None = Field(
            default=None, description="GPU architecture such as sm_90a; left out: the default."
        )
        max_seconds: float | None = Field(default=None, gt=0, description="Most seconds this call may take.")

    base = context or RunContext(model="offline")
    embedded = Embedded()

    def asked(target: str | None, max_seconds: float | None) -> RunContext:
        own = base.for_one_run()
        if target is not None:
            own.target = target
        if max_seconds is not None:
            budget = own.effective.budget
            tightest = min(max_seconds, budget.max_seconds or max_seconds)
            own.budget = budget.model_copy(update={"max_seconds": tightest})
        return own

    def run(
        request: str, config: RunnableConfig, target: str | None = None, max_seconds: float | None = None
    ) -> tuple[str, dict[str, Any]]:
        try:
            result = embedded.invoke(request, asked(target, max_seconds), config)
        except ConfigError as exc:
            raise ToolException(str(exc)) from exc
        return answer(result), result.document

    async def arun(
        request: str, config: RunnableConfig, target: str | None = None, max_seconds: float | None = None
    ) -> tuple[str, dict[str, Any]]:
        try:
            result = await embedded.ainvoke(request, asked(target, max_seconds), config)
        except ConfigError as exc:
            raise ToolException(str(exc)) from exc
        return answer(result), result.document

    return StructuredTool.from_function(
        run, coroutine=arun, name=name, description=description, args_schema=KernelRequest,
        response_format="content_and_artifact", handle_tool_error=True,
    )  # fmt: skip


def answer(result: "RunResult") -> str:
    """Return the outcome in a few lines that a model can act on."""
    verdict, timing, stop = result.verdict, result.timing, result.stop
    lines = [f"status: {result.status} ({stop['reason'].replace('_', ' ')})"]
    if stop.get("detail") and result.status != "verified":
        lines.append(f"why: {_line(stop['detail'], 400)}")
    if verdict is not None:
        missing = [s.name for s in verdict.stages if s.status == "not_measured"]
        lines.append(f"judged on {verdict.executor} for {verdict.target}: {verdict.outcome}")
        lines += [f"not measured: {', '.join(missing)}"] if missing else []
    if result.kernel is not None:
        lines.append(
            f"time: {timing.median_us:.3g} us on {timing.device}" if timing else "time: not measured"
        )
    lines += [
        _line(f"assumed: {a.what} = {a.value} ({a.why})", 200) for a in result.assumptions[:_MOST_ASSUMPTIONS]
    ]
    kernel = result.document.get("kernel")
    if kernel:
        lines.append(f"kernel: {kernel['path']}")
    lines.append(f"evidence: {result.run_dir / 'report.html'}")
    return "\n".join(lines)


def _line(text: object, limit: int) -> str:
    """Return text of the run as one short line, so that it cannot pass for a line of ours."""
    return " ".join(str(text).split())[:limit]
