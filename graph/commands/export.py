"""`export`: a verified kernel as a file of its own."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from cuda_harness.graph.commands.common import Debug, Json, Target, reported


class Form(StrEnum):
    """The forms of an export."""

    STANDALONE = "standalone"
    TORCH = "torch"
    CUDA_CORE = "cuda-core"


def export(
    source: Annotated[Path, typer.Argument(metavar="RUN_OR_BUNDLE", help="A run's folder, or a bundle's.")],
    form: Annotated[Form, typer.Option("--as", help="The form to write.")],
    out: Annotated[Path, typer.Option(help="The file (torch: the folder) to write.")],
    target: Target = None,
    fixed: Annotated[
        bool, typer.Option("--fixed", help="standalone: only the target sizes, no size arguments.")
    ] = False,
    unverified: Annotated[
        bool, typer.Option("--unverified", help="Export it although nothing proves it; marked as such.")
    ] = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a verified kernel as a program, a Python module or a torch package."""
    import json

    from cuda_harness.tools.export.forms import write_export
    from cuda_harness.tools.export.subject import load_subject

    with reported(debug=debug, as_json=as_json):
        subject = load_subject(source, allow_unverified=unverified)
        written = write_export(subject, form.value, out, arch=target, fixed=fixed)
        if as_json:
            typer.echo(json.dumps(written, indent=1))
        else:
            state = "verified" if subject.verified else f"UNVERIFIED ({subject.why_unverified})"
            typer.echo("\n".join([f"{written['path']}: {form.value} of {subject.ir.name!r}, {state}",
                                  *(f"  {line}" for line in written["notes"])]))  # fmt: skip
