"""`verify`: judge a bundle, whoever wrote it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from cuda_harness.state.results import Verdict


def verify(
    bundle: BundlePath,
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

    with reported(debug=debug, as_json=as_json):
        settings = settings_of(
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


def exit_of_verdict(verdict: "Verdict") -> int:
    """Return 0 for an accepted kernel, 1 for one that is rejected or undecided."""
    return 0 if verdict.accepted else 1
