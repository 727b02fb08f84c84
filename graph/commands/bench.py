"""`bench`: suites of tasks through the harness, graded; and two result folders side by side."""

import functools
import inspect
import json
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuda_harness.graph.commands.common import (
    Debug,
    Json,
    MaxCalls,
    MaxGpuSeconds,
    MaxSeconds,
    MaxTokens,
    MaxUsd,
    Model,
    Seed,
    Target,
    UnsafeExec,
    reported,
    settings_of,
)

if TYPE_CHECKING:
    from cuda_harness.state.settings import Settings

app = typer.Typer(
    name="bench",
    help="Run a suite of tasks and write its result table.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Baseline(StrEnum):
    """What runs in place of the harness."""

    ONE_SHOT = "one-shot"


Level_ = Annotated[
    list[int] | None,
    typer.Option(
        min=1, max=3, help="1: all is said, 2: the algorithm, 3: the name; may be given several times."
    ),
]
ExecutorNames = Annotated[
    str | None,
    typer.Option(
        "--executor", help="auto, cpu, cuda, cuda:N; several (cuda:0,cuda:1): jobs are dealt out over them."
    ),
]
Ids = Annotated[str | None, typer.Option(help="Only these ids: numbers and ranges, 3,7-12.")]
Kinds = Annotated[str | None, typer.Option(help="Only these task names, comma separated.")]
Samples = Annotated[int, typer.Option(min=1, max=100, help="Programs for each task.")]
Jobs = Annotated[
    int | None, typer.Option(min=1, max=64, help="Tasks at a time; left out: one on each executor.")
]
Out = Annotated[Path, typer.Option(help="Folder of the results; finished ones in it are not run again.")]
BaselineOption = Annotated[
    Baseline | None, typer.Option(help="Ask the same model once, without the harness.")
]
Clarify = Annotated[
    Path | None, typer.Option(help="JSONL with further words: id, answers, and level if it matters.")
]
Rounds = Annotated[
    int | None, typer.Option(min=0, help="Rounds of optimisation after the first verified kernel.")
]
Branches = Annotated[int | None, typer.Option(min=1, max=16, help="Ideas tried in each round.")]
LadderSeconds = Annotated[float | None, typer.Option(help="Most wall seconds for judging one kernel.")]


@dataclass(frozen=True)
class Options:
    """What `cudabench` and `suite` share, in the order of their help."""

    out: Out
    level: Level_ = None
    ids: Ids = None
    kinds: Kinds = None
    samples: Samples = 1
    model: Model = None
    executor: ExecutorNames = None
    target: Target = None
    jobs: Jobs = None
    baseline: BaselineOption = None
    clarify: Clarify = None
    max_calls: MaxCalls = None
    max_tokens: MaxTokens = None
    max_usd: MaxUsd = None
    max_seconds: MaxSeconds = None
    max_gpu_seconds: MaxGpuSeconds = None
    rounds: Rounds = None
    branches: Branches = None
    ladder_seconds: LadderSeconds = None
    seed: Seed = None
    as_json: Json = False
    unsafe_exec: UnsafeExec = False
    debug: Debug = False

    def settings(self) -> "Settings":
        """Return the settings of each run; limits are those of the whole suite and not among them."""
        return settings_of({
            "model": self.model, "target": self.target, "seed": self.seed, "rounds": self.rounds,
            "branches": self.branches,
            "unsafe_exec": self.unsafe_exec or None, "ladder_seconds": self.ladder_seconds,
        })  # fmt: skip

    def limits(self) -> dict[str, float]:
        """Return the budget of the whole suite, as far as it was given."""
        names = ("max_calls", "max_tokens", "max_usd", "max_seconds", "max_gpu_seconds")
        return {n: float(v) for n in names if (v := getattr(self, n)) is not None}


def shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `Options` beside its own first parameter; it gets them as one object."""
    own = next(p for p in inspect.signature(command).parameters.values() if p.name != "options")
    shared = [
        inspect.Parameter(
            f.name, inspect.Parameter.KEYWORD_ONLY, annotation=f.type,
            default=inspect.Parameter.empty if f.default is MISSING else f.default,
        )
        for f in fields(Options)
    ]  # fmt: skip

    @functools.wraps(command)
    def run(**given: Any) -> None:  # noqa: ANN401 - typer has read and checked them
        first = given.pop(own.name)
        command(**{own.name: first}, options=Options(**given))

    run.__signature__ = inspect.Signature([own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (own, *shared)}
    return run


@app.command()
@shared_options
def cudabench(
    *, data: Annotated[Path, typer.Option(help="The benchmark's JSONL file.")], options: Options
) -> None:  # fmt: skip
    """Run the public CUDABench file (level 3 unless --level says otherwise); limits are those of the whole suite."""
    with reported(debug=options.debug, as_json=options.as_json):
        _run("cudabench", data, tuple(options.level or (3,)), options, trusted=False)


@app.command()
@shared_options
def suite(
    *,
    data: Annotated[
        Path | None, typer.Option(help="A folder or JSONL file in place of examples/suite.")
    ] = None,
    options: Options,
) -> None:
    """Run our own twelve tasks, at all three levels unless --level says otherwise: no download, no GPU needed."""
    with reported(debug=options.debug, as_json=options.as_json):
        _run("suite", data or _own_suite(), tuple(options.level or (1, 2, 3)), options, trusted=data is None)


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="A folder of results.")],
    b: Annotated[Path, typer.Argument(help="Another one.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for compare.md, compare.html and compare.json.")
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare two runs of a suite side by side, paired by task, level and sample."""
    from cuda_harness.tools.benchmarks import side_by_side

    with reported(debug=debug, as_json=as_json):
        document = side_by_side.side_by_side(a, b)
        if out is not None:
            side_by_side.write(document, out)
        if as_json:
            typer.echo(json.dumps(document, indent=1))
            return
        lines = [*side_by_side.facts(document), "", *_columns(side_by_side.figure_rows(document))]
        if document["changed"]:
            lines += ["", *_columns(side_by_side.changed_rows(document))]
        typer.echo("\n".join(lines))


def _own_suite() -> Path:
    """Return the folder of our own tasks; raises ConfigError outside a checkout."""
    import cuda_harness
    from cuda_harness.state.errors import ConfigError

    found = Path(cuda_harness.__file__).resolve().parents[2] / "examples" / "suite"
    if not found.is_dir():
        msg = "the suite's folder, examples/suite, is not part of this installation"
        raise ConfigError(msg, remedy="name it with --data, from a clone of the repository")
    return found


def _run(name: str, data: Path, levels: tuple[int, ...], options: Options, *, trusted: bool) -> None:
    from cuda_harness.graph.benchmark import Bench, Order
    from cuda_harness.tools.benchmarks.clarify import read_clarifications
    from cuda_harness.tools.benchmarks.table import facts, summary_rows, verdict_rows
    from cuda_harness.tools.benchmarks.task import ALL_LEVELS, read_tasks, select

    settings, out = options.settings(), options.out
    executors = tuple((options.executor or settings.executor).split(","))
    order = Order(
        suite=name, tasks=select(read_tasks(data), ids=options.ids, kinds=options.kinds),
        levels=[n for n in ALL_LEVELS if n in levels], samples=options.samples, jobs=options.jobs or len(executors),
        baseline="one-shot" if options.baseline else None,
        clarify=read_clarifications(options.clarify) if options.clarify else {}, limits=options.limits(),
        executors=executors, trusted=trusted,
    )  # fmt: skip
    bench = Bench(order, settings, out, report=lambda line: typer.echo(line, err=True))
    document = bench.run()
    if options.as_json:
        typer.echo(json.dumps(document, indent=1))
    else:
        lines = [
            *facts(document),
            "",
            *_aligned(summary_rows(document)),
            "",
            *_aligned(verdict_rows(document["verdicts"])),
        ]
        lines += ["", f"results in {out}: results.jsonl, summary.md, summary.html, official/"]
        typer.echo("\n".join(lines))
    raise typer.Exit(_exit_code(document["notes"]))


def _exit_code(notes: list[str]) -> int:
    """Return 0 when all was run, 4 when the provider ended it, 1 when something is left for another call."""
    if any(note.startswith("stopped: the provider") for note in notes):
        return 4
    return 1 if any("not run" in note for note in notes) else 0


def _aligned(rows: list[list[str]]) -> list[str]:
    """Return a table turned on its side when it is wide: one figure a line."""
    return _columns([list(column) for column in zip(*rows, strict=True)] if len(rows[0]) > 6 else rows)


def _columns(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
