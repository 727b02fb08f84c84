"""`bench`: suites of tasks through the harness, graded; and two result folders side by side."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cuda_harness.graph.commands.common import (
    Debug,
    ExecutorName,
    Json,
    MaxCalls,
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
    from cuda_harness.tools.benchmarks.task import Level

app = typer.Typer(
    name="bench",
    help="Run a suite of tasks and write its result table.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Baseline(StrEnum):
    """What runs in place of the harness."""

    ONE_SHOT = "one-shot"


Ids = Annotated[str | None, typer.Option(help="Only these ids: numbers and ranges, 3,7-12.")]
Kinds = Annotated[str | None, typer.Option(help="Only these task names, comma separated.")]
Samples = Annotated[int, typer.Option(min=1, max=100, help="Programs for each task.")]
Jobs = Annotated[int, typer.Option(min=1, max=64, help="Tasks at a time.")]
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
LadderSeconds = Annotated[float | None, typer.Option(help="Most wall seconds for judging one kernel.")]


@app.command()
def cudabench(
    data: Annotated[Path, typer.Option(help="The benchmark's JSONL file.")],
    out: Out,
    level: Annotated[
        int, typer.Option(min=1, max=3, help="1: all is said, 2: the algorithm, 3: the name.")
    ] = 3,
    ids: Ids = None,
    kinds: Kinds = None,
    samples: Samples = 1,
    model: Model = None,
    executor: ExecutorName = None,
    target: Target = None,
    jobs: Jobs = 1,
    baseline: BaselineOption = None,
    clarify: Clarify = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    max_seconds: MaxSeconds = None,
    rounds: Rounds = None,
    ladder_seconds: LadderSeconds = None,
    seed: Seed = None,
    as_json: Json = False,
    unsafe_exec: UnsafeExec = False,
    debug: Debug = False,
) -> None:
    """Run the public CUDABench file; limits are those of the whole suite."""
    with reported(debug=debug, as_json=as_json):
        flags = {
            "model": model,
            "target": target,
            "seed": seed,
            "rounds": rounds,
            "unsafe_exec": unsafe_exec or None,
        }
        settings = _settings(flags, ladder_seconds)
        limits = {
            "max_calls": max_calls,
            "max_tokens": max_tokens,
            "max_usd": max_usd,
            "max_seconds": max_seconds,
        }
        _run("cudabench", data, (level,), settings, out, executor=executor, ids=ids, kinds=kinds, samples=samples, jobs=jobs,
             baseline=baseline, clarify=clarify, limits=limits, trusted=False, as_json=as_json)  # fmt: skip


@app.command()
def suite(
    out: Out,
    data: Annotated[
        Path | None, typer.Option(help="A folder or JSONL file in place of examples/suite.")
    ] = None,
    level: Annotated[
        list[int] | None, typer.Option(min=1, max=3, help="Several may be given; default all three.")
    ] = None,
    ids: Ids = None,
    kinds: Kinds = None,
    samples: Samples = 1,
    model: Model = None,
    executor: ExecutorName = None,
    target: Target = None,
    jobs: Jobs = 1,
    baseline: BaselineOption = None,
    clarify: Clarify = None,
    max_calls: MaxCalls = None,
    max_tokens: MaxTokens = None,
    max_usd: MaxUsd = None,
    max_seconds: MaxSeconds = None,
    rounds: Rounds = None,
    ladder_seconds: LadderSeconds = None,
    seed: Seed = None,
    as_json: Json = False,
    unsafe_exec: UnsafeExec = False,
    debug: Debug = False,
) -> None:
    """Run our own twelve tasks: no download, no GPU needed."""
    with reported(debug=debug, as_json=as_json):
        flags = {
            "model": model,
            "target": target,
            "seed": seed,
            "rounds": rounds,
            "unsafe_exec": unsafe_exec or None,
        }
        settings = _settings(flags, ladder_seconds)
        limits = {
            "max_calls": max_calls,
            "max_tokens": max_tokens,
            "max_usd": max_usd,
            "max_seconds": max_seconds,
        }
        levels = tuple(sorted(set(level or (1, 2, 3))))
        _run("suite", data or _own_suite(), levels, settings, out, executor=executor, ids=ids, kinds=kinds, samples=samples,
             jobs=jobs, baseline=baseline, clarify=clarify, limits=limits, trusted=data is None, as_json=as_json)  # fmt: skip


@app.command()
def compare(
    a: Annotated[Path, typer.Argument(help="A folder of results.")],
    b: Annotated[Path, typer.Argument(help="Another one.")],
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare two runs of a suite, paired by task, level and sample."""
    from cuda_harness.tools.benchmarks.results import compare_lines

    with reported(debug=debug, as_json=as_json):
        document, lines = compare_lines(a, b)
        typer.echo(json.dumps(document, indent=1) if as_json else "\n".join(lines))


def _settings(flags: dict[str, Any], ladder_seconds: float | None) -> "Settings":
    return settings_of({**flags, "ladder_seconds": ladder_seconds})


def _own_suite() -> Path:
    """Return the folder of our own tasks; raises ConfigError outside a checkout."""
    import cuda_harness
    from cuda_harness.state.errors import ConfigError

    found = Path(cuda_harness.__file__).resolve().parents[2] / "examples" / "suite"
    if not found.is_dir():
        msg = "the suite's folder, examples/suite, is not part of this installation"
        raise ConfigError(msg, remedy="name it with --data, from a clone of the repository")
    return found


def _run(
    name: str, data: Path, levels: tuple[int, ...], settings: "Settings", out: Path, *, executor: str | None,
    ids: str | None, kinds: str | None, samples: int, jobs: int, baseline: Baseline | None, clarify: Path | None,
    limits: dict[str, float | int | None], trusted: bool, as_json: bool,
) -> None:  # fmt: skip
    from cuda_harness.graph.benchmark import Bench, Order
    from cuda_harness.tools.benchmarks.clarify import read_clarifications
    from cuda_harness.tools.benchmarks.table import facts, summary_rows, verdict_rows
    from cuda_harness.tools.benchmarks.task import ALL_LEVELS, read_tasks, select

    chosen: list[Level] = [n for n in ALL_LEVELS if n in levels]
    order = Order(
        suite=name, tasks=select(read_tasks(data), ids=ids, kinds=kinds), levels=chosen, samples=samples, jobs=jobs,
        baseline="one-shot" if baseline else None, clarify=read_clarifications(clarify) if clarify else {},
        limits={k: float(v) for k, v in limits.items() if v is not None},
        executors=tuple((executor or settings.executor).split(",")), trusted=trusted,
    )  # fmt: skip
    bench = Bench(order, settings, out, report=lambda line: typer.echo(line, err=True))
    document = bench.run()
    if as_json:
        typer.echo(json.dumps(document, indent=1))
        return
    lines = [
        *facts(document),
        "",
        *_aligned(summary_rows(document)),
        "",
        *_aligned(verdict_rows(document["verdicts"])),
    ]
    typer.echo(
        "\n".join([*lines, "", f"results in {out}: results.jsonl, summary.md, summary.html, official/"])
    )
    unfinished = any("not run" in note for note in document["notes"])
    raise typer.Exit(1 if unfinished else 0)


def _aligned(rows: list[list[str]]) -> list[str]:
    """Return a table turned on its side when it is wide: one figure a line."""
    if len(rows[0]) > 6:
        rows = [list(column) for column in zip(*rows, strict=True)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]
