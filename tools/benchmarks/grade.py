"""The grader: the benchmark's question, asked without its holes.

Each run gets a fresh folder with the inputs and nothing else; what is expected is never there. The official data and
data from secret seeds are both asked, every declared output is read, its size must be exact, and it is judged by the
benchmark's own comparer and by our tolerance.
"""

import secrets
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from cuda_harness.state.names import FLOATS
from cuda_harness.tools.benchmarks.candidate import Candidate
from cuda_harness.tools.benchmarks.judge import comparer_faults, expected_file
from cuda_harness.tools.benchmarks.scripts import Data, make_data, official_verdict
from cuda_harness.tools.benchmarks.task import Task, TaskTensor
from cuda_harness.tools.execute.dtypes import np_dtype

SECRET_SEEDS = 2
RTOL = 1e-3
"""Ours: relative to the element, and to the root mean square of the output, which bounds cancellation in sums."""


@dataclass(frozen=True)
class Case:
    """One run on one set of data."""

    data: Literal["official", "secret"]
    status: Literal["ok", "failed", "not_run"]
    official: bool | None = None
    """What compare.py says; `None`: it was not asked."""
    ours: bool | None = None
    """Our tolerance over all outputs; `None`: what is expected was not found among the generator's files."""
    message: str = ""


@dataclass(frozen=True)
class Grade:
    """What is known of one candidate on one task; `None`: not measured, and `detail` says why."""

    comp: bool | None
    """It compiled, and ran to its end on the official data."""
    func: bool | None
    """compare.py passes it on the official and on every secret data."""
    func_official: bool | None
    """compare.py passes it on the official data: the benchmark's own figure."""
    ours: bool | None
    graded_by: str
    detail: str = ""
    cases: tuple[Case, ...] = field(default_factory=tuple)
    judge: tuple[str, ...] | None = None
    """Faults of the task's own comparer; `None`: not asked."""


class Grader:
    """Grades candidates; the data of a task are drawn once and used for every candidate."""

    def __init__(self, *, secret_seeds: int = SECRET_SEEDS, unsafe: bool = False) -> None:
        self._unsafe = unsafe
        self._seeds = [None, *(secrets.randbelow(1 << 31) for _ in range(secret_seeds))]
        self._data: dict[tuple[int, int | None], Data | str] = {}
        self._judges: dict[int, tuple[str, ...] | None] = {}

    def data(self, task: Task, seed: int | None) -> Data | str:
        """Return a task's data for one seed (`None`: the official one), or why there are none."""
        key = (task.id, seed)
        if key not in self._data:
            self._data = {k: v for k, v in self._data.items() if k[0] == task.id}  # one task's data at a time
            with tempfile.TemporaryDirectory(prefix="cuda-harness-gen-") as folder:
                self._data[key] = make_data(task, Path(folder), seed=seed, unsafe=self._unsafe)
        return self._data[key]

    def grade(self, task: Task, candidate: Candidate) -> Grade:
        """Return what the candidate is worth on this task.

        Raises:
            SandboxUnavailable: If the benchmark's scripts cannot be contained here.
        """
        by = candidate.graded_by
        if not task.gradable:
            return Grade(None, None, None, None, by, "the task has no gen.py or compare.py")
        if not task.outputs:
            return Grade(None, None, None, None, by, "the task declares no output")
        official = self.data(task, None)
        if isinstance(official, str):
            return Grade(None, None, None, None, by, official)
        built = candidate.build()
        if built.status == "not_run":
            return Grade(None, None, None, None, by, built.message)
        if built.status == "failed":
            return Grade(False, False, False, False, by, f"it does not compile: {built.message}"[:1000])
        cases = []
        for seed in self._seeds:
            cases.append(self._case(task, candidate, seed))
            if cases[-1].status != "ok" or cases[-1].official is False:
                break
        if task.id not in self._judges:
            self._judges[task.id] = comparer_faults(task, official, unsafe=self._unsafe)
        return replace(_summed(cases, by), judge=self._judges[task.id])

    def _case(self, task: Task, candidate: Candidate, seed: int | None) -> Case:
        kind: Literal["official", "secret"] = "official" if seed is None else "secret"
        data = self.data(task, seed)
        if isinstance(data, str):
            return Case(kind, "not_run", message=data)
        with tempfile.TemporaryDirectory(prefix="cuda-harness-run-") as name:
            folder = Path(name)
            for relative, content in data.inputs.items():
                (folder / relative).parent.mkdir(parents=True, exist_ok=True)
                (folder / relative).write_bytes(content)
            (folder / "data").mkdir(exist_ok=True)
            ran = candidate.run(folder, task)
            if ran.status != "ok":
                return Case(kind, ran.status, message=ran.message)
            outputs = _outputs(task, folder)
        if isinstance(outputs, str):
            return Case(kind, "ok", official=False, ours=False, message=outputs)
        with tempfile.TemporaryDirectory(prefix="cuda-harness-compare-") as name:
            passed, shown = official_verdict(task, Path(name), data, outputs, unsafe=self._unsafe)
        ours = our_verdict(task, data, outputs)
        return Case(kind, "ok", official=passed, ours=ours, message="" if passed else shown)


def _outputs(task: Task, folder: Path) -> dict[str, bytes] | str:
    """Return every declared output as the run left it, or what is wrong; links are not followed."""
    found = {}
    for tensor in task.outputs:
        path = folder / tensor.path
        if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
            return f"it wrote no {tensor.path}"
        if path.stat().st_size != tensor.bytes:
            return f"{tensor.path} has {path.stat().st_size} bytes, it must have {tensor.bytes}"
        found[tensor.path] = path.read_bytes()
    return found


def our_verdict(task: Task, data: Data, outputs: dict[str, bytes]) -> bool | None:
    """Return whether every output is within our tolerance; `None` when an expected file is not found."""
    verdicts = []
    for tensor in task.outputs:
        expected = expected_file(task, tensor, data)
        if expected is None:
            return None
        verdicts.append(_close(tensor, outputs[tensor.path], data.others[expected]))
    return all(verdicts)


def _close(tensor: TaskTensor, actual: bytes, expected: bytes) -> bool:
    kind = np_dtype(tensor.dtype)
    if tensor.dtype not in FLOATS:
        return actual == expected
    got = np.frombuffer(actual, dtype=kind).astype(np.float64)
    truth = np.frombuffer(expected, dtype=kind).astype(np.float64)
    same = (got == truth) | (np.isnan(got) & np.isnan(truth))
    finite = truth[np.isfinite(truth)]
    size = float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 0.0
    with np.errstate(all="ignore"):
        near = np.abs(got - truth) <= RTOL * (np.abs(truth) + size)
    return bool(np.all(same | (near & np.isfinite(truth))))


def _summed(cases: list[Case], by: str) -> Grade:
    """Return the grade over all cases; the official one is the first."""
    first = cases[0]
    detail = next((c.message for c in cases if c.message), "")
    if first.status == "not_run":
        return Grade(None, None, None, None, by, detail, tuple(cases))
    comp = first.status == "ok"
    official = comp and bool(first.official)
    known = [c for c in cases if c.status != "not_run"]
    passed = all(c.status == "ok" and c.official for c in known)
    ours = None if any(c.ours is None and c.status == "ok" for c in known) else all(c.ours for c in known)
    return Grade(comp, passed, official, ours, by, detail[:1000], tuple(cases))
