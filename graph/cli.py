"""The `cuda-harness` command. Heavy modules load inside the commands, so that `--help` is quick."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cuda_harness.state.errors import ConfigError, HarnessError

if TYPE_CHECKING:
    from cuda_harness.graph.result import RunResult
    from cuda_harness.state.results import Verdict

app = typer.Typer(
    name="cuda-harness",
    help="Words in, a verified CUDA kernel out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)

Model = Annotated[str | None, typer.Option(help="offline, openai:NAME, replay:FILE or record:FILE:SPEC.")]
ExecutorName = Annotated[str | None, typer.Option("--executor", help="auto, cpu, cuda or cuda:N.")]
Target = Annotated[str | None, typer.Option(help="GPU architecture to compile for, for example sm_90a.")]
MaxCalls = Annotated[int | None, typer.Option(help="Most model calls.")]
MaxTokens = Annotated[int | None, typer.Option(help="Most tokens, input and output together.")]
MaxUsd = Annotated[float | None, typer.Option(help="Most money, by the prices in cuda-harness.toml.")]
MaxSeconds = Annotated[float | None, typer.Option(help="Most wall seconds.")]
MaxGpuSeconds = Annotated[float | None, typer.Option(help="Refused: GPU seconds are not counted yet.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]
Seed = Annotated[int | None, typer.Option(help="Seed of all test data; left out: a secret one.")]
UnsafeExec = Annotated[
    bool, typer.Option("--unsafe-exec", help="Run foreign code even where it cannot be contained.")
]

EXIT_BY_STOP = {"model_failed": 4, "refused": 4, "environment": 5}
"""Stops that are not the kernel's doing -> exit code; every other end without a verified kernel is 1."""


@app.command()
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
    rounds: Annotated[int | None, typer.Option(help="Rounds of optimisation (none are built yet).")] = None,
    branches: Annotated[
        int | None, typer.Option(help="Ideas tried in one round (none are built yet).")
    ] = None,
    out: Annotated[str | None, typer.Option(help="Folder that gets the run's folder.")] = None,
    seed: Seed = None,
    ir: Annotated[Path | None, typer.Option(help="Skip the Planner and take this ir.json.")] = None,
    as_json: Json = False,
    unsafe_exec: UnsafeExec = False,
    debug: Debug = False,
) -> None:
    """Write, compile, run and judge a kernel for REQUEST."""
    from cuda_harness.graph import runner
    from cuda_harness.graph.progress import Progress
    from cuda_harness.state.ir import KernelIR

    with _reported(debug=debug, as_json=as_json):
        flags = {
            "model": model, "executor": executor, "target": target, "max_calls": max_calls, "max_tokens": max_tokens,
            "max_usd": max_usd, "max_seconds": max_seconds, "max_gpu_seconds": max_gpu_seconds, "rounds": rounds,
            "branches": branches, "out": out, "seed": seed, "unsafe_exec": unsafe_exec or None,
        }  # fmt: skip
        context = runner.make_context(settings=_settings(flags))
        progress = Progress()
        context.listener = progress
        given = KernelIR.read(ir) if ir is not None else None
        with progress.live():
            result = runner.generate(_read_request(request), context=context, ir=given)
        _finish(result, as_json=as_json)


@app.command()
def resume(
    run: Annotated[Path, typer.Argument(help="The run's folder.")],
    model: Model = None,
    executor: ExecutorName = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    max_seconds: MaxSeconds = None,
    max_gpu_seconds: MaxGpuSeconds = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Go on with a run that was killed, interrupted or out of budget."""
    from cuda_harness.graph import runner
    from cuda_harness.graph.progress import Progress

    with _reported(debug=debug, as_json=as_json):
        flags = {
            "model": model, "executor": executor, "max_calls": max_calls, "max_tokens": max_tokens, "max_usd": max_usd,
            "max_seconds": max_seconds, "max_gpu_seconds": max_gpu_seconds,
        }  # fmt: skip
        progress = Progress()
        with progress.live():
            result = runner.resume(run, flags=flags, listener=progress)
        _finish(result, as_json=as_json)


@app.command()
def verify(
    bundle: Annotated[
        Path, typer.Argument(help="Folder with ir.json, kernel.cu, plan.json and reference.py.")
    ],
    executor: ExecutorName = None,
    target: Target = None,
    seed: Seed = None,
    max_seconds: MaxSeconds = None,
    out: Annotated[Path | None, typer.Option(help="Write the verdict to this file as well.")] = None,
    as_json: Json = False,
    unsafe_exec: UnsafeExec = False,
    debug: Debug = False,
) -> None:
    """Judge a kernel bundle, whoever wrote it."""
    from cuda_harness.graph import runner
    from cuda_harness.graph.show import verdict_lines
    from cuda_harness.tools.archive.run_folder import write_atomically

    with _reported(debug=debug, as_json=as_json):
        settings = _settings(
            {"executor": executor, "target": target, "seed": seed, "unsafe_exec": unsafe_exec or None}
        )
        verdict = runner.verify(bundle, max_seconds=max_seconds, settings=settings)
        if out is not None:
            write_atomically(out, verdict.to_json().encode())
        if as_json:
            typer.echo(verdict.to_json(), nl=False)
        else:
            typer.echo("\n".join(verdict_lines(verdict)))
        raise typer.Exit(exit_of_verdict(verdict))


@app.command()
def show(
    run: Annotated[Path, typer.Argument(help="The run's folder.")],
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Say what happened in a run."""
    from cuda_harness.graph.show import document_lines
    from cuda_harness.tools.archive.run_folder import RunFolder

    with _reported(debug=debug, as_json=as_json):
        folder = RunFolder.open(run)
        if not folder.exists("result.json"):
            msg = f"the run in {str(run)!r} has not ended"
            raise ConfigError(msg, remedy=f"go on with it: cuda-harness resume {run}")
        document = folder.read_json("result.json")
        typer.echo(json.dumps(document, indent=1) if as_json else "\n".join(document_lines(document)))


@app.command()
def trace(
    run: Annotated[Path, typer.Argument(help="The run's folder.")],
    role: Annotated[str | None, typer.Option(help="Only runs of this node or role.")] = None,
    attempt: Annotated[int | None, typer.Option(help="Only runs of this attempt.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the trace of a run as a tree, with time and tokens."""
    from rich.console import Console

    from cuda_harness.graph.show import trace_filter
    from cuda_harness.tools.archive.run_folder import RunFolder
    from cuda_harness.tools.trace.recorder import read_trace
    from cuda_harness.tools.trace.tree import trace_tree

    with _reported(debug=debug, as_json=as_json):
        folder = RunFolder.open(run)
        runs = read_trace(folder.root)
        keep = trace_filter(role=role, attempt=attempt)
        if as_json:
            typer.echo(json.dumps([r for r in runs if keep(r)], indent=1))
            return
        Console(highlight=False).print(trace_tree(runs, title=folder.root.name, keep=keep))


@app.command()
def doctor(as_json: Json = False, debug: Debug = False) -> None:
    """Say what this machine can do, each thing tried for real, each fault with its remedy."""
    from cuda_harness.graph.show import finding_lines
    from cuda_harness.tools.toolchain.doctor import examine

    with _reported(debug=debug, as_json=as_json):
        settings = _settings({})
        key = settings.provider.api_key
        findings = examine(
            base_url=settings.provider.base_url, api_key=key.get_secret_value() if key is not None else None
        )
        if as_json:
            typer.echo(json.dumps([f.model_dump(mode="json") for f in findings], indent=1))
        else:
            typer.echo("\n".join(finding_lines(findings)))


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        from cuda_harness import __version__

        typer.echo(__version__)
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


def main() -> None:
    """Run the command line."""
    app()


def exit_of_verdict(verdict: "Verdict") -> int:
    """Return 0 for an accepted kernel, 1 for one that is rejected or undecided."""
    return 0 if verdict.accepted else 1


def exit_of_result(result: "RunResult") -> int:
    """Return 0 for a verified kernel; else what kept it from being one."""
    if result.status == "verified":
        return 0
    return EXIT_BY_STOP.get(str(result.stop["reason"]), 1)


def _finish(result: "RunResult", *, as_json: bool) -> None:
    from cuda_harness.graph.show import document_lines

    if as_json:
        typer.echo(json.dumps(result.document, indent=1))
    else:
        typer.echo("\n".join(document_lines(result.document)))
    raise typer.Exit(exit_of_result(result))


def _settings(flags: dict[str, Any]) -> Any:  # noqa: ANN401 - Settings, imported lazily
    from cuda_harness.graph.configure import load_settings

    return load_settings(flags, environment=os.environ)


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


class _reported:  # noqa: N801 - reads as a statement
    """Turn our errors into one clear message and the right exit code; tracebacks only with --debug."""

    def __init__(self, *, debug: bool, as_json: bool) -> None:
        self._debug = debug
        self._as_json = as_json

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: object
    ) -> Literal[False]:
        if error is None or self._debug or isinstance(error, (typer.Exit, typer.Abort, SystemExit)):
            return False
        if isinstance(error, KeyboardInterrupt):
            typer.echo("interrupted", err=True)
            raise typer.Exit(1) from error
        if isinstance(error, HarnessError):
            code, message, remedy = error.exit_code, error.message, error.remedy
        else:
            code = 70
            message = f"a bug in CUDA-Harness: {kind.__name__ if kind else 'error'}: {error}"
            remedy = "run it again with --debug and report the traceback"
        if self._as_json:
            document = {
                "schema": "cuda-harness/error/1",
                "error": message,
                "remedy": remedy,
                "exit_code": code,
            }
            typer.echo(json.dumps(document, indent=1))
        typer.echo(f"error: {message}" + (f"\n  -> {remedy}" if remedy else ""), err=True)
        raise typer.Exit(code) from error
