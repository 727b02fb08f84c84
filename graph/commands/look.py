"""`show`, `trace`, `report` and `doctor`: what happened, and what this machine can do."""

import json
from pathlib import Path
from typing import Annotated

import typer

from cuda_harness.graph.commands.common import Debug, Json, RunFolderPath, reported, settings_of
from cuda_harness.state.errors import ConfigError


def show(
    run: RunFolderPath,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Say what happened in a run."""
    from cuda_harness.graph.show import document_lines
    from cuda_harness.tools.archive.run_folder import RunFolder

    with reported(debug=debug, as_json=as_json):
        folder = RunFolder.open(run)
        if not folder.exists("result.json"):
            msg = f"the run in {str(run)!r} has not ended"
            raise ConfigError(msg, remedy=f"go on with it: cuda-harness resume {run}")
        document = folder.read_json("result.json")
        typer.echo(json.dumps(document, indent=1) if as_json else "\n".join(document_lines(document)))


def trace(
    run: RunFolderPath,
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

    with reported(debug=debug, as_json=as_json):
        folder = RunFolder.open(run)
        runs = read_trace(folder.root)
        keep = trace_filter(role=role, attempt=attempt)
        if as_json:
            typer.echo(json.dumps([r for r in runs if keep(r)], indent=1))
            return
        Console(highlight=False).print(trace_tree(runs, title=folder.root.name, keep=keep))


def report(
    run: RunFolderPath,
    out: Annotated[Path | None, typer.Option(help="Write it here; left out: report.html in the run.")] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a run as one self-contained HTML file."""
    from cuda_harness.graph.report.page import write_report

    with reported(debug=debug, as_json=as_json):
        path = write_report(run, out).resolve()
        document = {"schema": "cuda-harness/report/1", "path": str(path), "bytes": path.stat().st_size}
        typer.echo(json.dumps(document, indent=1) if as_json else str(path))


def doctor(as_json: Json = False, debug: Debug = False) -> None:
    """Say what this machine can do, each thing tried for real, each fault with its remedy."""
    from cuda_harness.graph.show import finding_lines
    from cuda_harness.tools.toolchain.doctor import examine

    with reported(debug=debug, as_json=as_json):
        settings = settings_of({})
        key = settings.provider.api_key
        findings = examine(
            base_url=settings.provider.base_url, api_key=key.get_secret_value() if key is not None else None
        )
        if as_json:
            typer.echo(json.dumps([f.model_dump(mode="json") for f in findings], indent=1))
        else:
            typer.echo("\n".join(finding_lines(findings)))
