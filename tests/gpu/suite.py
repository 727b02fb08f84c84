"""All tasks of examples/suite at three levels through the bench on a GPU, with the built-in templates and with times.

`python -m tests.gpu.suite OUT [SECONDS] [EXECUTORS]`: OUT/suite/ (the bench's own results; a second call goes on with what
is missing) and OUT/suite.md.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cuda_harness.graph.benchmark import Bench, Order
from cuda_harness.state.budget import Budget
from cuda_harness.state.settings import Settings
from cuda_harness.tools.benchmarks.results import read_rows
from cuda_harness.tools.benchmarks.table import facts, shown, summary_rows, verdict_rows
from cuda_harness.tools.benchmarks.task import ALL_LEVELS, read_tasks

SUITE = Path(__file__).resolve().parents[2] / "examples" / "suite"
ROUNDS = 0
"""The first kernel, tuned and timed; whole searches belong to `evolution`."""
JOBS = max(1, min(6, (os.cpu_count() or 2) // 3))
"""Tasks at a time: their compilers and CPU stages overlap, their timings hold the GPU's lock one after the other."""
_COLUMNS = (
    "id", "kind", "level", "status", "comp", "func", "ours", "outcome", "failure_class", "median_us", "sol_fraction",
    "speed_vs_reference", "score", "seconds", "graded_by",
)  # fmt: skip


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return one line a result as Markdown; what went wrong is told below, in full sentences."""
    lines = ["| " + " | ".join(_COLUMNS) + " |", "|" + "---|" * len(_COLUMNS)]
    ordered = sorted(rows, key=lambda r: (r["level"], r["id"]))
    lines += ["| " + " | ".join(cell(r.get(key)) for key in _COLUMNS) + " |" for r in ordered]
    for r in ordered:
        said = [text for text in (r["detail"], r["not_measured"]) if text]
        if said:
            lines.append(f"\n{r['kind']} level {r['level']}: {' '.join('; '.join(said).split())[:500]}")
    return "\n".join(lines) + "\n"


def cell(value: object) -> str:
    """Return a value as a cell; what is not known, or does not apply, is left empty."""
    return "" if value is None else shown(value).replace("|", "/")


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table turned on its side: one figure a line."""
    return ["  ".join(f"{cell:>14}" for cell in column) for column in zip(*rows, strict=True)]


def main(out: Path, seconds: float, executors: str, ids: Sequence[int] = ()) -> None:
    """Run what is missing within the time and write the table, also when something breaks on the way."""
    settings = Settings(
        model="offline", ladder_seconds=90.0, libraries=False, budget=Budget(rounds=ROUNDS)
    )  # fmt: skip
    tasks = [t for t in read_tasks(SUITE) if not ids or t.id in ids]
    order = Order(
        suite="suite", tasks=tasks, levels=ALL_LEVELS, jobs=JOBS, executors=tuple(executors.split(",")), trusted=True,
        limits={"max_seconds": seconds},
    )  # fmt: skip
    bench = Bench(order, settings, out / "suite", report=lambda line: print(line, flush=True))
    try:
        document = bench.run()
    finally:
        if (out / "suite" / "results.jsonl").is_file():
            (out / "suite.md").write_text(table(read_rows(out / "suite")))
    head = [*facts(document), "", "```", *aligned(summary_rows(document)), "", *aligned(verdict_rows(document["verdicts"])), "```"]  # fmt: skip
    text = "\n".join(head) + "\n\n" + table(read_rows(out / "suite"))
    (out / "suite.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        float(sys.argv[2]) if len(sys.argv) > 2 else 500.0,
        sys.argv[3] if len(sys.argv) > 3 else "cuda:0",
    )
