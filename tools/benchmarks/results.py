"""The files of a suite's results: one line a result, the benchmark's own format, the summary and its pages."""

import json
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cuda_harness.state.errors import ConfigError
from cuda_harness.tools.archive.run_folder import write_atomically
from cuda_harness.tools.benchmarks.figures import summary
from cuda_harness.tools.benchmarks.plots import plots
from cuda_harness.tools.benchmarks.table import markdown, page
from cuda_harness.tools.benchmarks.task import Task

KIND = "cuda-harness/bench/1"
FIELDS = (
    "id", "kind", "level", "sample", "status", "comp", "func", "speed_vs_reference", "score", "sol_fraction", "outcome",
    "failure_class", "calls", "input_tokens", "output_tokens", "usd", "seconds", "program", "func_official", "ours",
    "graded_by", "detail", "run", "clarified", "not_measured", "judge",
    "median_us", "gpu_seconds",
)  # fmt: skip
"""Of one line: those of CONTRACT 9, then our additions."""
UNAVAILABLE = "unavailable"
CUT = "cut short"
"""Only the suite's budget ended it."""
AGAIN = frozenset({UNAVAILABLE, CUT, "error", "not_run"})
"""Statuses that say nothing about the model: the provider, this machine, a bug of ours; the next call goes on with them."""
Row = dict[str, Any]
_MAY_DIFFER = frozenset({"created", "versions", "tasks"})
Key = tuple[int, int, int]


def empty_row(task: Task, level: int, sample: int) -> Row:
    """Return a result of which nothing is known yet."""
    row: Row = dict.fromkeys(FIELDS)
    row |= {"id": task.id, "kind": task.task_name, "level": level, "sample": sample, "graded_by": "", "detail": "",
            "clarified": False, "not_measured": "", "judge": None}  # fmt: skip
    return row


class Results:
    """The folder RESULTS; finished lines are on disk before the next task starts."""

    def __init__(self, root: Path, head: Mapping[str, Any]) -> None:
        """Open or make the folder.

        Raises:
            ConfigError: If it holds results of another suite, model or setting; the user acts.
        """
        self.root = root
        self._lock = threading.Lock()
        path = root / "bench.json"
        if path.is_file():
            found = json.loads(path.read_text(encoding="utf-8"))
            differing = sorted(k for k in head if found.get(k) != head[k] and k not in _MAY_DIFFER)
            known = found.get("tasks") or {}
            changed = [n for n, text in head["tasks"].items() if known.get(n, text) != text]
            if changed:
                differing.append(f"version of task {', '.join(changed[:5])}")
            if differing:
                msg = f"{str(root)!r} holds results with another {', '.join(differing)}"
                raise ConfigError(
                    msg, remedy="name a new folder with --out, or repeat the first command to go on with it"
                )
            found = {**found, "tasks": {**known, **head["tasks"]}}
        else:
            found = dict(head)
        write_atomically(path, (json.dumps(found, indent=1) + "\n").encode())
        self.head = {**head, "tasks": found["tasks"], "created": found.get("created", "")}
        lines = root / "results.jsonl"
        self.rows = read_rows(root) if lines.is_file() else []
        if lines.is_file() and not lines.read_bytes().endswith(b"\n"):
            with lines.open("ab") as stream:  # a line that a kill cut off stays alone
                stream.write(b"\n")

    @property
    def done(self) -> set[Key]:
        """What needs not be run again."""
        return {(r["id"], r["level"], r["sample"]) for r in self.rows if r["status"] not in AGAIN}

    def row(self, number: int, level: int, sample: int) -> Row | None:
        """Return the last result of a task, level and sample, `None` when there is none."""
        with self._lock:
            return next(
                (r for r in self.rows if (r["id"], r["level"], r["sample"]) == (number, level, sample)), None
            )

    def program_path(self, task: Task, level: int, sample: int) -> Path:
        """Return where a result's program lies."""
        return self.root / "programs" / f"{task.id:04d}-{level}-{sample}.cu"

    def add(self, row: Row) -> None:
        """Append one finished result."""
        with self._lock:
            self.root.mkdir(parents=True, exist_ok=True)
            with (self.root / "results.jsonl").open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(row, ensure_ascii=False) + "\n")
                stream.flush()
            key = (row["id"], row["level"], row["sample"])
            self.rows = [r for r in self.rows if (r["id"], r["level"], r["sample"]) != key] + [row]

    def finish(self, tasks: Sequence[Task], *, notes: Sequence[str] = ()) -> dict[str, Any]:
        """Write summary.json, summary.md, summary.html and official/, and return the summary."""
        rows = sorted(self.rows, key=lambda r: (r["level"], r["id"], r["sample"]))
        head = {k: v for k, v in self.head.items() if k != "tasks"}
        document = {"schema": KIND, **head, "notes": list(notes), **summary(rows)}
        write_atomically(self.root / "summary.json", (json.dumps(document, indent=1) + "\n").encode())
        write_atomically(self.root / "summary.md", markdown(document, rows).encode())
        images = plots(document, rows)
        write_atomically(self.root / "summary.html", page(document, rows, images).encode())
        self._official(rows, {t.id: t for t in tasks})
        return document

    def _official(self, rows: Sequence[Row], tasks: Mapping[int, Task]) -> None:
        """Write the answers as the benchmark's own evaluator reads them: code1, code2, ... of each id."""
        model = "".join(c if c.isalnum() or c in "-._" else "-" for c in str(self.head["model"]))[:60]
        for level in sorted({r["level"] for r in rows}):
            here = [r for r in rows if r["level"] == level]
            samples = max(r["sample"] for r in here)
            lines = []
            for number in sorted({r["id"] for r in here}):
                if number not in tasks:
                    continue
                line: dict[str, Any] = {
                    "id": number, "task_name": tasks[number].task_name, "prompt": tasks[number].request(level),
                    "run_id": str(self.head.get("created", "")),
                }  # fmt: skip
                for r in (r for r in here if r["id"] == number):
                    n = r["sample"]
                    path = self.root / r["program"] if r["program"] else None
                    line[f"code{n}"] = path.read_text(encoding="utf-8") if path and path.is_file() else None
                    line[f"response{n}"] = None
                    line[f"correctness{n}"] = bool(r["comp"])
                    line[f"functionality{n}"] = bool(r["func_official"])
                lines.append(json.dumps(line, ensure_ascii=False))
            path = self.root / "official" / f"{model}_level{level}_pass{samples}.jsonl"
            write_atomically(path, ("\n".join(lines) + "\n").encode())


def read_rows(root: Path) -> list[Row]:
    """Return the results in a folder, the last of each; a line cut off by a kill is dropped, and run again.

    Raises:
        ConfigError: If there are none.
    """
    path = root / "results.jsonl"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        msg = f"{str(root)!r} holds no results: {exc}"
        raise ConfigError(msg, remedy="give the folder that `bench --out` named") from exc
    rows: dict[Key, Row] = {}
    for line in lines:
        try:
            row = json.loads(line)
            key = (row["id"], row["level"], row["sample"])
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if set(FIELDS[:18]) <= set(row):
            rows[key] = {**dict.fromkeys(FIELDS), **row}
    return list(rows.values())


def title_of(root: Path) -> str:
    """Return what a folder's results are called; its name where they do not say."""
    try:
        return str(json.loads((root / "bench.json").read_text(encoding="utf-8"))["title"])
    except (OSError, ValueError, KeyError, TypeError):
        return root.name
