"""Tasks in the CUDABench format: read, checked, selected, and put into words for a model."""

import ast
import json
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.names import ITEM_BYTES
from cuda_harness.state.serde import describe

Level = Literal[1, 2, 3]
ALL_LEVELS: tuple[Level, ...] = (1, 2, 3)
_MAX_FILE = 1 << 28
_PARTS = ("bench.cu", "gen.py", "compare.py")


class TaskTensor(BaseModel):
    """One array: a flat little-endian file `data/NAME.bin`."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")
    dtype: str
    shape: tuple[int, ...]

    @field_validator("dtype")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in ITEM_BYTES:
            msg = f"dtype {value!r} is not known"
            raise ValueError(msg)
        return value

    @field_validator("shape", mode="before")
    @classmethod
    def _tuple(cls, value: Any) -> Any:  # noqa: ANN401 - the public file writes "(128, 4)"
        if not isinstance(value, str):
            return value
        try:
            read = ast.literal_eval(value.strip() or "()")
        except (ValueError, SyntaxError, MemoryError, RecursionError) as exc:
            msg = f"shape {value[:60]!r} is no tuple"
            raise ValueError(msg) from exc
        return (read,) if isinstance(read, int) else read

    @property
    def count(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of its file."""
        return self.count * ITEM_BYTES[self.dtype]

    @property
    def path(self) -> str:
        """Its file, relative to where the program runs."""
        return f"data/{self.name}.bin"


class Task(BaseModel):
    """One task. `bench`, `gen` and `compare` are for the grader alone; no model ever sees them."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    id: int
    task_name: str = Field(max_length=200)
    inputs: tuple[TaskTensor, ...]
    outputs: tuple[TaskTensor, ...]
    """Empty in some public tasks: those cannot be bound to any kernel."""
    level1_prompt: str = Field(default="", max_length=20_000)
    level2_prompt: str = Field(default="", max_length=20_000)
    level3_prompt: str = Field(default="", max_length=20_000)
    bench: str = Field(default="", alias="bench.cu")
    gen: str = Field(default="", alias="gen.py")
    compare: str = Field(default="", alias="compare.py")

    @property
    def gradable(self) -> bool:
        """Whether there is what a grader needs."""
        return bool(self.gen and self.compare)

    def prompt(self, level: Level) -> str:
        """Return the task in words at one level."""
        return {1: self.level1_prompt, 2: self.level2_prompt, 3: self.level3_prompt}[level]

    def request(self, level: Level, more: str = "") -> str:
        """Return what a model is told: the prompt, and names, dtypes and shapes; nothing else but `more` words."""
        words = [self.prompt(level).strip(), *([more.strip()] if more.strip() else [])]
        lines = [*words, "", "Inputs:", *map(_line, self.inputs), "Outputs:"]
        return "\n".join([*lines, *map(_line, self.outputs)]) + "\n"


def _line(tensor: TaskTensor) -> str:
    shape = ", ".join(map(str, tensor.shape)) + ("," if len(tensor.shape) == 1 else "")
    return f"- {tensor.name}: {tensor.dtype}, shape ({shape})"


def read_tasks(path: Path) -> list[Task]:
    """Return the tasks of a JSONL file, or of a folder of folders with task.json, bench.cu, gen.py and compare.py.

    Raises:
        ConfigError: If it cannot be read or a task is malformed; the user acts.
    """
    rows = _folder_rows(path) if path.is_dir() else _file_rows(path)
    tasks = []
    for where, row in rows:
        try:
            tasks.append(Task.model_validate(row))
        except ValidationError as exc:
            msg = f"{where} is not a task:\n{describe(exc)}"
            raise ConfigError(msg, remedy="give a file in the format of CUDABench-Set.jsonl") from exc
    ids = [t.id for t in tasks]
    if len(set(ids)) != len(ids):
        msg = f"{str(path)!r} names an id twice: {sorted({i for i in ids if ids.count(i) > 1})[:5]}"
        raise ConfigError(msg, remedy="give each task its own id")
    if not tasks:
        msg = f"{str(path)!r} holds no task"
        raise ConfigError(msg, remedy="give a file in the format of CUDABench-Set.jsonl")
    return sorted(tasks, key=lambda t: t.id)


def _file_rows(path: Path) -> list[tuple[str, Any]]:
    try:
        if path.stat().st_size > _MAX_FILE:
            msg = f"{str(path)!r} is larger than {_MAX_FILE} bytes"
            raise ConfigError(msg, remedy="check that this is the right file")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as exc:
        msg = f"cannot read {str(path)!r}: {exc}"
        raise ConfigError(msg, remedy="give the benchmark's JSONL file with --data") from exc
    rows = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            rows.append((f"line {number} of {str(path)!r}", json.loads(line)))
        except (ValueError, RecursionError) as exc:
            msg = f"line {number} of {str(path)!r} is not JSON: {exc}"
            raise ConfigError(msg, remedy="give a file in the format of CUDABench-Set.jsonl") from exc
    return rows


def _folder_rows(path: Path) -> list[tuple[str, Any]]:
    rows = []
    for head in sorted(path.glob("*/task.json")):
        try:
            row = json.loads(head.read_text(encoding="utf-8"))
            row |= {part: (head.parent / part).read_text(encoding="utf-8") for part in _PARTS}
        except (OSError, ValueError) as exc:
            msg = f"cannot read the task in {str(head.parent)!r}: {exc}"
            raise ConfigError(msg, remedy="a task is task.json, bench.cu, gen.py and compare.py") from exc
        rows.append((str(head.parent), row))
    return rows


def pack(tasks: Iterable[Task]) -> str:
    """Return tasks as JSONL text in the public format."""
    lines = []
    for task in tasks:
        row = task.model_dump(mode="json", by_alias=True)
        for tensor in [*row["inputs"], *row["outputs"]]:
            shape = tensor["shape"]
            tensor["shape"] = "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"
        lines.append(json.dumps(row, ensure_ascii=False))
    return "\n".join(lines) + "\n"


def select(tasks: Sequence[Task], *, ids: str | None = None, kinds: str | None = None) -> list[Task]:
    """Return the tasks that are asked for.

    Args:
        tasks: All of them.
        ids: Numbers and ranges, `3,7-12`; `None`: every one.
        kinds: Task names, comma separated, any case; `None`: every one.

    Raises:
        ConfigError: If the text cannot be read, or nothing is left.
    """
    chosen = list(tasks)
    if ids is not None:
        wanted: set[int] = set()
        for part in ids.split(","):
            found = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", part)
            if found is None:
                msg = f"--ids {ids!r} is not a list of numbers and ranges"
                raise ConfigError(msg, remedy="write --ids 3,7-12")
            wanted |= set(range(int(found[1]), int(found[2] or found[1]) + 1))
        chosen = [t for t in chosen if t.id in wanted]
    if kinds is not None:
        names = {k.strip().lower() for k in kinds.split(",")}
        chosen = [t for t in chosen if t.task_name.lower() in names]
    if not chosen:
        known = ", ".join(sorted({t.task_name for t in tasks})[:20])
        msg = "no task is left by --ids and --kinds"
        raise ConfigError(msg, remedy=f"ids {tasks[0].id}-{tasks[-1].id}; kinds: {known}, ...")
    return chosen
