"""`plot`: pictures of a run's timed kernels."""

import json
from pathlib import Path
from typing import Annotated

import typer

from cuda_harness.graph.commands.common import Debug, Json, RunFolderPath, reported


def plot(
    run: RunFolderPath,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the pictures; left out: plots/ in the run's.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Draw the roofline with all timed kernels, and the time by attempt."""
    from cuda_harness.graph.report.evidence import read_evidence
    from cuda_harness.state.errors import ConfigError
    from cuda_harness.tools.profile.plots import candidate, progress_figure, roofline_figure, save

    with reported(debug=debug, as_json=as_json):
        evidence = read_evidence(run)
        timed = [a for a in evidence.attempts if a.timing is not None]
        if not timed:
            why = next((a.not_timed for a in evidence.attempts if a.not_timed), "no kernel was verified")
            msg = f"no attempt of this run has a time: {why}"
            raise ConfigError(msg, remedy="run it on a GPU: generate --executor cuda")
        best = evidence.shown
        points = [
            candidate(
                f"{a.id} {a.strategy}", a.id, a.timing, a.profile, best=best is not None and a.id == best.id
            )
            for a in timed
            if a.timing is not None
        ]
        roof = next(
            (
                a.profile.roofline
                for a in timed
                if a.profile is not None and "peak_gb_s" in a.profile.roofline
            ),
            {},
        )
        name = evidence.ir.name if evidence.ir is not None else ""
        folder = out or run / "plots"
        written = [folder / "progress.svg"]
        save(progress_figure(points, title=name), written[0])
        if "peak_gb_s" in roof:
            written.append(folder / "roofline.svg")
            figure = roofline_figure(
                points, peak_gb_s=roof["peak_gb_s"], peak_gflop_s=roof.get("peak_gflop_s"), title=name
            )
            save(figure, written[1])
        paths = [str(p) for p in written]
        typer.echo(
            json.dumps({"schema": "cuda-harness/plots/1", "paths": paths}, indent=1)
            if as_json
            else "\n".join(paths)
        )
