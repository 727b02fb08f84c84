"""What the commands share: option types, settings from flags, errors as one message and an exit code."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cuda_harness.state.errors import HarnessError

if TYPE_CHECKING:
    from cuda_harness.state.settings import Settings

Model = Annotated[str | None, typer.Option(help="offline, openai:NAME, replay:FILE or record:FILE:SPEC.")]
ExecutorName = Annotated[
    str | None, typer.Option("--executor", help="auto, cpu, cuda, cuda:N or cuda:auto (the least busy).")
]
Target = Annotated[str | None, typer.Option(help="GPU architecture to compile for, for example sm_90a.")]
MaxCalls = Annotated[int | None, typer.Option(help="Most model calls.")]
MaxTokens = Annotated[int | None, typer.Option(help="Most tokens, input and output together.")]
MaxUsd = Annotated[float | None, typer.Option(help="Most money, by the prices in cuda-harness.toml.")]
MaxSeconds = Annotated[float | None, typer.Option(help="Most wall seconds.")]
MaxGpuSeconds = Annotated[
    float | None, typer.Option(help="Most seconds that GPU processes may work; the CPU uses none.")
]
Rounds = Annotated[
    int | None,
    typer.Option(help="Rounds of optimisation in all (by default 3 where time is measured, else none)."),
]
Branches = Annotated[int | None, typer.Option(help="Ideas tried in one round, each in a branch of its own.")]
LadderSeconds = Annotated[float | None, typer.Option(help="Most wall seconds for judging one kernel.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]
Seed = Annotated[int | None, typer.Option(help="Seed of all test data; left out: a secret one.")]
UnsafeExec = Annotated[
    bool, typer.Option("--unsafe-exec", help="Run foreign code even where it cannot be contained.")
]
RunFolderPath = Annotated[Path, typer.Argument(help="The run's folder.")]
BundlePath = Annotated[
    Path, typer.Argument(help="Folder with ir.json, kernel.cu, plan.json and reference.py.")
]


def settings_of(flags: dict[str, Any]) -> "Settings":
    """Return the settings in force with these flags on top (`None`: not given)."""
    from cuda_harness.graph.configure import load_settings

    return load_settings(flags, environment=os.environ)


class reported:  # noqa: N801 - reads as a statement
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
