"""`profile`: verify a bundle, then time and explain it on a GPU."""

from pathlib import Path
from typing import Annotated

import typer

from cuda_harness.graph.commands.common import (
    BundlePath,
    Debug,
    ExecutorName,
    Json,
    MaxSeconds,
    Seed,
    Target,
    UnsafeExec,
    reported,
    settings_of,
)


def profile(
    bundle: BundlePath,
    against: Annotated[
        Path | None, typer.Option(help="A second bundle of the same problem, timed in turns.")
    ] = None,
    executor: ExecutorName = None,
    target: Target = None,
    seed: Seed = None,
    max_seconds: MaxSeconds = None,
    tune: Annotated[bool, typer.Option("--tune", help="Search the plan's tunables first.")] = False,
    counters: Annotated[bool, typer.Option(help="Hardware counters, through ncu or CUPTI.")] = True,
    libraries: Annotated[bool, typer.Option(help="Times of PyTorch's operator as well.")] = True,
    out: Annotated[Path | None, typer.Option(help="Write the report to this file as well.")] = None,
    as_json: Json = False,
    unsafe_exec: UnsafeExec = False,
    debug: Debug = False,
) -> None:
    """Verify a kernel bundle, then time and profile it at its target size."""
    from cuda_harness.graph.profiling import REMEDY, Options, exit_code, profile_bundle, report_lines
    from cuda_harness.tools.archive.run_folder import write_atomically

    with reported(debug=debug, as_json=as_json):
        settings = settings_of(
            {"executor": executor, "target": target, "seed": seed, "unsafe_exec": unsafe_exec or None}
        )
        report = profile_bundle(
            bundle,
            settings,
            Options(against, tune=tune, counters=counters, libraries=libraries, max_seconds=max_seconds),
        )
        if out is not None:
            write_atomically(out, report.to_json().encode())
        if as_json:
            typer.echo(report.to_json(), nl=False)
        else:
            typer.echo("\n".join(report_lines(report)))
        code = exit_code(report)
        if code == 5:
            typer.echo(f"error: time needs a GPU, and this was the CPU executor\n  -> {REMEDY}", err=True)
        raise typer.Exit(code)
