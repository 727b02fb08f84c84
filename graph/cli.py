"""The `cuda-harness` command. Heavy modules load inside the commands, so that `--help` is quick."""

from typing import Annotated

import typer

from cuda_harness.graph.commands import bench, export, judge, look, plot, profile, run

app = typer.Typer(
    name="cuda-harness",
    help="Words in, a verified CUDA kernel out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
for _command in (
    run.generate,
    run.resume,
    judge.verify,
    profile.profile,
    plot.plot,
    look.show,
    look.trace,
    look.report,
    look.doctor,
    export.export,
):
    app.command()(_command)
app.add_typer(bench.app)


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
