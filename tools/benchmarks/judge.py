"""The judge is judged first: does a task's comparer pass what its generator expects, and fail what is plainly wrong?"""

import tempfile
from pathlib import Path

import numpy as np

from cuda_harness.state.names import FLOATS
from cuda_harness.tools.benchmarks.scripts import Data, official_verdict
from cuda_harness.tools.benchmarks.task import Task, TaskTensor
from cuda_harness.tools.execute.dtypes import np_dtype


def expected_file(task: Task, tensor: TaskTensor, data: Data) -> str | None:
    """Return the generator's file that holds what is expected of an output, `None` when it is not told apart."""
    fitting = [
        n for n, content in data.others.items() if len(content) == tensor.bytes and n.startswith("data/")
    ]
    named = [n for n in fitting if Path(n).stem in _names(tensor.name)]
    if len(named) == 1:
        return named[0]
    return fitting[0] if len(fitting) == 1 and len(task.outputs) == 1 else None


def _names(name: str) -> set[str]:
    short = name.removesuffix("_out").removesuffix("_output").removesuffix("_cuda").removesuffix("_gpu")
    marks = ("ref", "expected", "golden", "reference", "cpu")
    return {f"{b}_{m}" for b in (name, short) for m in marks} | {
        f"{m}_{b}" for b in (name, short) for m in marks
    }


def comparer_faults(task: Task, data: Data, *, unsafe: bool = False) -> tuple[str, ...] | None:
    """Return what is wrong with compare.py, a clause each; empty when nothing was found.

    Asked: what gen.py expects must pass; with one element of one output far off, in the middle or at the end, and
    with one output all zeros, it must fail. `None`: what is expected is not told apart among the generator's files.
    """
    right: dict[str, bytes] = {}
    for tensor in task.outputs:
        found = expected_file(task, tensor, data)
        if found is None:
            return None
        right[tensor.path] = data.others[found]
    faults = []

    def passes(outputs: dict[str, bytes]) -> bool:
        with tempfile.TemporaryDirectory(prefix="cuda-harness-judge-") as folder:
            return official_verdict(task, Path(folder), data, outputs, unsafe=unsafe)[0]

    if not passes(right):
        return ("it fails what gen.py expects",)
    for tensor in task.outputs:
        if not tensor.count:
            continue
        raw = right[tensor.path]
        for where, index in (("in the middle", tensor.count // 2), ("at the end", tensor.count - 1)):
            if passes({**right, tensor.path: far_off(tensor, raw, index)}):
                faults.append(f"it passes {tensor.name} with one element {where} far off")
        if any(raw) and passes({**right, tensor.path: bytes(len(raw))}):
            faults.append(f"it passes {tensor.name} all zeros")
    return tuple(dict.fromkeys(faults))


def far_off(tensor: TaskTensor, raw: bytes, index: int) -> bytes:
    """Return an output with one element plainly wrong: far beyond its size, or its upper bits turned."""
    kind = np_dtype(tensor.dtype)
    values = np.frombuffer(raw, dtype=kind).copy()
    if tensor.dtype in FLOATS:
        wide = values.astype(np.float64)
        finite = wide[np.isfinite(wide)]
        size = float(np.abs(finite).max()) if finite.size else 0.0
        with np.errstate(all="ignore"):
            values[index] = np.asarray(
                -(wide[index] if np.isfinite(wide[index]) else 0.0) - 8 * size - 8
            ).astype(kind)
    elif tensor.dtype == "bool":
        values[index] = not values[index]
    else:
        bits = values.view(f"u{kind.itemsize}")
        bits[index] ^= np.asarray(1 << (8 * kind.itemsize - 2)).astype(bits.dtype)
    return values.tobytes()
