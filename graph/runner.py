"""Runs from Python: `generate`, `agenerate`, `resume`, `verify`."""

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda_harness.agents.context import Listener, RunContext
from cuda_harness.graph.configure import load_settings
from cuda_harness.graph.session import open_run, versions
from cuda_harness.state.budget import Budget, Stop
from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import Verdict
from cuda_harness.state.settings import Settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import RunnableConfig

    from cuda_harness.graph.result import RunResult
    from cuda_harness.tools.archive.run_folder import RunFolder
    from cuda_harness.tools.execute.protocol import Executor

_STATE_TYPES = (
    ("cuda_harness.state.attempt", "Attempt"),
    ("cuda_harness.state.budget", "Budget"),
    ("cuda_harness.state.budget", "Spend"),
    ("cuda_harness.state.budget", "Stop"),
    ("cuda_harness.state.harness", "BranchState"),
    ("cuda_harness.state.harness", "Decision"),
    ("cuda_harness.state.harness", "Result"),
    ("cuda_harness.state.ir", "KernelIR"),
    ("cuda_harness.state.rounds", "BranchEnd"),
    ("cuda_harness.state.rounds", "BranchPlan"),
    ("cuda_harness.state.rounds", "Round"),
    ("cuda_harness.state.suite", "SuiteSummary"),
)
"""The only types a checkpoint may hold: everything else in the file stays data."""


def generate(
    request: str,
    *,
    model: "str | BaseChatModel | None" = None,
    models: "Mapping[str, str | BaseChatModel] | None" = None,
    executor: "str | Executor | None" = None,
    target: str | None = None,
    budget: Budget | None = None,
    out: str | Path | None = None,
    seed: int | None = None,
    settings: Settings | None = None,
    ir: KernelIR | None = None,
    ask: bool | None = None,
    answer: Mapping[str, str] | None = None,
    context: RunContext | None = None,
    progress: bool | None = None,
) -> "RunResult":
    """Return a verified kernel for `request`, or the best there is, with the evidence.

    Works in a script and inside a running event loop (no loop of its own is started).

    Args:
        request: What to compute, in words.
        model: `offline`, `openai:NAME`, `replay:FILE`, `record:FILE:SPEC`, or any LangChain chat model.
        models: The same per role (planner, reference, loops, coder, arbiter, evolver).
        executor: `auto`, `cpu`, `cuda[:N]`, or an executor object.
        target: GPU architecture, for example `sm_90a`; `None`: the device's, else sm_90a.
        budget: Limits; `None`: those of the settings.
        out: Folder that gets the run's folder; default `runs`.
        seed: Seed of all test data; `None`: a secret one, kept in the manifest.
        settings: All settings at once; `None`: environment and `cuda-harness.toml`.
        ir: Skip the Planner.
        ask: Put the IR's assumptions to you before a kernel is written: the result's status is then `question`, and
            `resume(run_dir, answer={...})` goes on.
        answer: What to answer to that question, by assumption, when it is known before.
        context: A context of your own; the arguments above it, `ir` and `answer` apart, are then ignored.
        progress: Show progress; `None`: in a notebook and in IPython only. A listener of the context's own is kept.

    Raises:
        ConfigError: If the request or a setting is unusable; the user acts.
    """
    context = context or make_context(
        model=model, models=models, executor=executor, target=target, budget=budget, out=out, seed=seed,
        settings=settings, ask=True if answer is not None else ask,
    )  # fmt: skip
    if answer is not None and not context.effective.ask:
        context = replace(context, ask=True)
    folder, text = open_run(request, context.effective)
    run_id = folder.read_json("manifest.json")["run_id"]
    start: dict[str, Any] = {"request": text, "run_id": run_id, "run_dir": str(folder.root)}
    if ir is not None:
        folder.write_text("ir.json", ir.to_json())
        start["ir"] = ir
    with _watched(context, progress):
        result = _drive(folder, context, start)
        if answer is not None and result.status == "question":
            result = resume(result.run_dir, context=context, answer=answer)
        return result


@contextlib.contextmanager
def _watched(context: RunContext, progress: bool | None) -> Iterator[None]:
    """Show the run inside the block unless the context has a listener already."""
    from cuda_harness.graph.live import watching

    if context.listener is not None:
        yield
        return
    with watching(context.effective.budget, wanted=progress) as listener:
        context.listener = listener
        try:
            yield
        finally:
            context.listener = None


async def agenerate(request: str, **arguments: Any) -> "RunResult":  # noqa: ANN401 - those of `generate`
    """Return what `generate` returns, without blocking the loop; cancelling the task stops the run's children."""
    ir, progress, answer = (arguments.pop(name, None) for name in ("ir", "progress", "answer"))
    if answer is not None:
        arguments["ask"] = True
    context = arguments.pop("context", None) or make_context(**arguments)
    with _watched(context, progress):
        work = asyncio.get_running_loop().run_in_executor(
            None, lambda: generate(request, context=context, ir=ir, answer=answer, progress=False)
        )
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            context.cancelled.set()
            with contextlib.suppress(Exception):
                await work
            raise


def resume(
    run_dir: str | Path,
    *,
    flags: Mapping[str, Any] | None = None,
    context: RunContext | None = None,
    listener: Listener | None = None,
    force: bool = False,
    answer: Mapping[str, str] | None = None,
) -> "RunResult":
    """Return the result of a run that was killed, interrupted or out of budget, going on where it stood.

    Finished model calls are read from the run's folder, never made again. Verdicts and times are comparable only
    under the same request, toolchain and device, so other ones are refused unless `force` is set. A run that waits for
    an answer goes on with `answer`, by assumption; what it leaves out is accepted; without one it asks again. A kernel
    that nobody could decide on is judged again. A search that had come to its end goes on when it is given more.

    Args:
        run_dir: The run's folder.
        flags: Settings in place of the run's own: `model`, `executor`, `ladder_seconds`, and limits (`rounds`, `branches`,
            `max_calls`, ...) or a whole `budget`. Limits count the whole run, what was done before included.
        context: A context of your own, in place of the run's settings and `flags`.
        listener: Called with each progress event.
        force: Go on although the request, the toolchain or the device differs.
        answer: To the question of a run that waits.

    Raises:
        ConfigError: If `run_dir` is no run, its settings do not fit this version, or the conditions differ.
    """
    from cuda_harness.tools.archive.run_folder import RunFolder

    folder = RunFolder.open(Path(run_dir))
    manifest = folder.read_json("manifest.json")
    if manifest.get("schema") != "cuda-harness/manifest/1":
        msg = f"{str(folder.root)!r} was written by another major version ({manifest.get('schema')!r})"
        raise ConfigError(msg, remedy="resume it with the version that wrote it")
    if context is None:
        stored = {k: v for k, v in manifest["settings"].items() if v is not None}
        given = {k: v for k, v in (flags or {}).items() if v is not None}
        fresh = load_settings({}, environment=os.environ)
        merged = load_settings({**stored, **given}, environment={})
        provider = merged.provider.model_copy(update={"api_key": fresh.provider.api_key})
        settings = merged.model_copy(update={"provider": provider, "seed": manifest["seed"]})
        context = RunContext(settings=settings, listener=listener)
    return _drive(folder, context, None, force=force, answer=answer)


def verify(
    bundle: str | Path,
    *,
    executor: "str | Executor | None" = None,
    target: str | None = None,
    seed: int | None = None,
    max_seconds: float | None = None,
    settings: Settings | None = None,
    on_stage: Any = None,  # noqa: ANN401 - Callable[[StageResult], None]
) -> Verdict:
    """Return the verdict on a kernel bundle (CONTRACT: the folder with ir.json, kernel.cu, plan.json, reference.py).

    Raises:
        ConfigError: If the bundle is unusable as files; the user acts.
        ToolchainError: If this machine cannot judge it at all.
    """
    from cuda_harness.tools.execute.registry import executor as find
    from cuda_harness.tools.toolchain.nvrtc import Compiler
    from cuda_harness.tools.verify.ladder import verify_bundle

    settings = settings or load_settings({}, environment=os.environ)
    made = (
        executor
        if executor is not None and not isinstance(executor, str)
        else find(executor or settings.executor, settings=settings)
    )
    compiler = Compiler(cache=Path(settings.cache) if settings.cache else None)
    try:
        return verify_bundle(
            Path(bundle), executor=made, compiler=compiler, target=target or settings.target or made.device().arch or "sm_90a",
            seed=seed if seed is not None else settings.seed, max_seconds=max_seconds or settings.ladder_seconds,
            checker=_checker(made, settings), on_stage=on_stage,
        )  # fmt: skip
    finally:
        compiler.close()
        if made is not executor:
            made.close()


def _checker(executor: "Executor", settings: Settings) -> "Executor | None":
    """Return the executor that runs `tiny` in check mode; `None` where g++ is missing."""
    from cuda_harness.state.errors import ExecutorUnavailable
    from cuda_harness.tools.execute.registry import executor as find

    if "check" in executor.modes:
        return executor
    try:
        return find("cpu", settings=settings)
    except ExecutorUnavailable:
        return None


def make_context(
    *,
    settings: Settings | None = None,
    models: "Mapping[str, str | BaseChatModel] | None" = None,
    **fields: Any,  # noqa: ANN401 - RunContext's own fields
) -> RunContext:
    """Return a context over `settings`, which default to environment and `cuda-harness.toml`."""
    settings = settings or load_settings({}, environment=os.environ)
    return RunContext(settings=settings, models=models or {}, **fields)


def _drive(
    folder: "RunFolder", context: RunContext, start: dict[str, Any] | None, *, force: bool = False,
    answer: Mapping[str, str] | None = None,
) -> "RunResult":  # fmt: skip
    """Run or resume the graph in `folder` and return its result, also after Ctrl-C or a spent recursion limit."""
    from langgraph.errors import GraphRecursionError

    from cuda_harness.graph.build import build_graph
    from cuda_harness.graph.outcome import deliver, waiting
    from cuda_harness.graph.result import RunResult
    from cuda_harness.graph.resuming import answered, reopen, require_same_run
    from cuda_harness.graph.sameness import note_circumstances
    from cuda_harness.graph.waiting import interruptible
    from cuda_harness.state.harness import HarnessState

    run_id = folder.read_json("manifest.json")["run_id"]
    budget = context.effective.budget
    config: RunnableConfig = {
        "configurable": {"thread_id": run_id},
        "recursion_limit": budget.recursion_limit,
        "run_name": "cuda_harness",
        "metadata": {"run_id": run_id, "cuda_harness": versions().get("cuda-harness")},
    }
    services = context.services(str(folder.root))
    with _checkpointer(folder) as checkpointer:
        graph = build_graph(checkpointer)
        if start is None:
            if not force:
                require_same_run(graph, config, services)
            start = reopen(graph, config, folder, context)
        note_circumstances(services)
        given = answered(graph, config, answer) or start
        try:
            interruptible(
                lambda: graph.invoke(given, config, context=context, durability="sync"), context.cancelled
            )
            snapshot = graph.get_state(config)
            state = HarnessState.model_validate(snapshot.values)
            if snapshot.interrupts:
                question = snapshot.interrupts[0].value
                state = state.model_copy(update={"result": waiting(state, question, services)})
        except (KeyboardInterrupt, GraphRecursionError) as exc:
            state = HarnessState.model_validate(graph.get_state(config).values or (start or {}))
            stop = (
                Stop(reason="interrupted")
                if isinstance(exc, KeyboardInterrupt)
                else Stop(
                    reason="budget", detail="the recursion limit that follows from the budget is reached"
                )
            )
            state = state.model_copy(update={"stop": stop, "run_dir": str(folder.root), "run_id": run_id})
            state = state.model_copy(update={"result": deliver(state, services)})
        finally:
            context.close(str(folder.root))
    return RunResult(state, context)


@contextlib.contextmanager
def _checkpointer(folder: "RunFolder") -> Iterator[Any]:
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.checkpoint.sqlite import SqliteSaver

    connection = sqlite3.connect(str(folder.path("checkpoints.sqlite")), check_same_thread=False)
    try:
        saver = SqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=_STATE_TYPES))
        saver.setup()
        yield saver
    finally:
        connection.close()
