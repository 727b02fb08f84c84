"""`generate` and `resume`: the main job."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuda_harness.graph.commands.common import (
    Branches,
    Debug,
    ExecutorName,
    Json,
    LadderSeconds,
    MaxCalls,
    MaxGpuSeconds,
    MaxSeconds,
    MaxTokens,
    MaxUsd,
    Model,
    Rounds,
    RunFolderPath,
    Seed,
    Target,
    UnsafeExec,
    reported,
    settings_of,
)
from cuda_harness.state.errors import ConfigError

if TYPE_CHECKING:
    from cuda_harness.graph.result import RunResult

EXIT_BY_STOP = {"model_failed": 4, "refused": 4, "environment": 5}
"""Stops that are not the kernel's doing -> exit code; every other end without a verified kernel is 1."""


def generate(
    request: Annotated[str, typer.Argument(help="What to compute: text, @FILE, or - for stdin.")],
    model: Model = None,
    executor: ExecutorName = None,
    target: Target = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    max_seconds: MaxSeconds = None,
    max_gpu_seconds: MaxGpuSeconds = None,
    rounds: Rounds = None,
    branches: Branches = None,
    ladder_seconds: LadderSeconds = None,
    out: Annotated[str | None, typer.Option(help="Folder that gets the run's folder.")] = None,
    seed: Seed = None,
    ask: Annotated[
        bool, typer.Option("--ask", help="Put the assumptions to you before a kernel is written.")
    ] = False,
    ir: Annotated[Path | None, typer.Option(help="Skip the Planner and take this ir.json.")] = None,
    as_json: Json = False,
    unsafe_exec: UnsafeExec = False,
    debug: Debug = False,
) -> None:
    """Write, compile, run and judge a kernel for REQUEST."""
    from cuda_harness.graph import runner
    from cuda_harness.graph.progress import Progress
    from cuda_harness.state.ir import KernelIR

    with reported(debug=debug, as_json=as_json):
        flags = {
            "model": model, "executor": executor, "target": target, "max_calls": max_calls, "max_tokens": max_tokens,
            "max_usd": max_usd, "max_seconds": max_seconds, "max_gpu_seconds": max_gpu_seconds, "rounds": rounds,
            "branches": branches, "ladder_seconds": ladder_seconds, "out": out, "seed": seed,
            "unsafe_exec": unsafe_exec or None, "ask": ask or None,
        }  # fmt: skip
        context = runner.make_context(settings=settings_of(flags))
        progress = Progress()
        context.listener = progress
        given = KernelIR.read(ir) if ir is not None else None
        with progress.live():
            result = runner.generate(_read_request(request), context=context, ir=given)
        if result.status == "question" and not as_json and sys.stdin.isatty():
            answer = _answer_in_terminal(result.question or {})
            with progress.live():
                result = runner.resume(result.run_dir, context=context, answer=answer)
        _finish(result, as_json=as_json)


def resume(
    run: RunFolderPath,
    model: Model = None,
    executor: ExecutorName = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    max_seconds: MaxSeconds = None,
    max_gpu_seconds: MaxGpuSeconds = None,
    rounds: Rounds = None,
    branches: Branches = None,
    ladder_seconds: LadderSeconds = None,
    answer: Annotated[
        list[str] | None,
        typer.Option(
            "--answer", help="WHAT=VALUE: your answer to an assumption; repeat it. Alone, '=': accept all."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Go on although request, toolchain or device differ.")
    ] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Go on with a run that was killed, interrupted or out of budget; a finished one goes on with more rounds.

    Limits count the whole run, what was done before included. A verdict that was left open is taken up again.
    """
    from cuda_harness.graph import runner
    from cuda_harness.graph.progress import Progress

    with reported(debug=debug, as_json=as_json):
        flags = {
            "model": model, "executor": executor, "max_calls": max_calls, "max_tokens": max_tokens, "max_usd": max_usd,
            "max_seconds": max_seconds, "max_gpu_seconds": max_gpu_seconds, "rounds": rounds, "branches": branches,
            "ladder_seconds": ladder_seconds,
        }  # fmt: skip
        progress = Progress()
        with progress.live():
            result = runner.resume(
                run, flags=flags, listener=progress, force=force, answer=_read_answers(answer)
            )
        _finish(result, as_json=as_json)


def exit_of_result(result: "RunResult") -> int:
    """Return 0 for a verified kernel; else what kept it from being one."""
    if result.status == "verified":
        return 0
    return EXIT_BY_STOP.get(str(result.stop["reason"]), 1)


def _answer_in_terminal(question: dict[str, Any]) -> dict[str, str]:
    """Return what the user types for each assumption; Enter accepts it."""
    typer.echo(f"understood: {question.get('understood') or question.get('request')}", err=True)
    answer = {}
    for assumption in question.get("assumptions", []):
        what, value, why = (str(assumption.get(k) or "") for k in ("what", "value", "why"))
        typer.echo(f"\n{what}: {value}" + (f"  ({why})" if why else ""), err=True)
        for reading in assumption.get("readings", []):
            typer.echo(f"  - {reading['value']}: {reading.get('consequence') or ''}", err=True)
        answer[what] = typer.prompt(f"{what} [Enter: as assumed]", default="", show_default=False, err=True)
    return {what: said for what, said in answer.items() if said.strip()}


def _read_answers(given: list[str] | None) -> dict[str, str] | None:
    """Return answers by assumption, `None` when none was given; raises ConfigError."""
    if not given:
        return None
    found = {}
    for one in given:
        what, equals, value = one.partition("=")
        if not equals:
            msg = f"--answer {one!r} has no '='"
            raise ConfigError(msg, remedy="write --answer 'WHAT=VALUE', or --answer = to accept everything")
        if what.strip():
            found[what.strip()] = value.strip()
    return found


def _finish(result: "RunResult", *, as_json: bool) -> None:
    from cuda_harness.graph.show import document_lines

    if as_json:
        typer.echo(json.dumps(result.document, indent=1))
    else:
        typer.echo("\n".join(document_lines(result.document)))
    raise typer.Exit(exit_of_result(result))


def _read_request(argument: str) -> Any:  # noqa: ANN401 - text, or bytes that clean_request judges
    if argument == "-":
        return sys.stdin.buffer.read(1 << 20)
    if argument.startswith("@"):
        path = Path(argument[1:])
        try:
            return path.read_bytes()[: 1 << 20]
        except OSError as exc:
            msg = f"cannot read the request file {str(path)!r}: {exc.strerror or exc}"
            raise ConfigError(msg, remedy="check the path and its permissions") from exc
    return argument
