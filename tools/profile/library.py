"""Baselines by PyTorch: the operator an IR maps to, eager and compiled, timed by the same protocol in its own process."""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cuda_harness.state.names import FLOATS
from cuda_harness.state.results import LibraryTime
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.frames import read_frame, write_frame
from cuda_harness.tools.process import ProgramMissing, allowed_environment, run
from cuda_harness.tools.profile.floor import tensor_bytes
from cuda_harness.tools.profile.operators import candidates
from cuda_harness.tools.profile.session import Clock
from cuda_harness.tools.profile.stats import median_interval
from cuda_harness.tools.profile.workload import Workload
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.verify.cases import expected_of
from cuda_harness.tools.verify.compare import Mismatch, compare_outputs

NAME = "PyTorch"
_MODULE = "cuda_harness.tools.profile.torch_child"
_CANNOT = frozenset({"uint16", "uint32", "uint64"})
_MOST_BYTES = 4 << 30


def torch_times(
    work: Workload,
    suite: Suite,
    executor: Clock,
    *,
    compiled: bool = True,
    limit_s: float = 120.0,
    seed: int = 0,
) -> tuple[LibraryTime, ...]:
    """Return PyTorch's times for the problem at the workload's sizes, each with its reason where there is none.

    Args:
        work: Contents and the truth at the target.
        suite: Gives the small case by which the operator is recognised.
        executor: The GPU, for its lock and its environment.
        compiled: Whether torch.compile is timed as well.
        limit_s: Wall seconds for the child, compilation included.
        seed: For order and contents.
    """
    if not has_torch():
        return (LibraryTime(name=NAME, reason="PyTorch is not installed"),)
    names = candidates(work.ir)
    if not names:
        return (LibraryTime(name=NAME, reason="the IR's steps map to no operator of PyTorch"),)
    unknown = sorted({t.dtype for t in work.ir.inputs} & _CANNOT)
    if unknown:
        return (LibraryTime(name=NAME, reason=f"PyTorch computes little in {unknown[0]}"),)
    answered = _ask(_job(work, suite, names, compiled=compiled, seed=seed), executor, limit_s)
    if isinstance(answered, str):
        return (LibraryTime(name=NAME, reason=answered),)
    return _times(answered[0], answered[1], work)


def has_torch() -> bool:
    """Return whether PyTorch can be imported, without importing it."""
    from importlib.util import find_spec

    return find_spec("torch") is not None


def _job(
    work: Workload, suite: Suite, names: list[str], *, compiled: bool, seed: int
) -> tuple[dict[str, Any], list[bytes]] | str:
    """Return header and blobs: the small case, its truths, then the content sets at the target."""
    ir = work.ir
    usable = [c for c in suite.cases("tiny") if 0 not in c.dims.values()]
    small = max(
        usable, key=lambda c: sum(tensor_bytes(t, c.dims) for t in ir.inputs), default=None
    )  # 1 x 1 fits many
    answers = suite.answers([small]) if small is not None else {}
    if small is None or not isinstance(answers, dict) or small.id not in answers:
        return "there is no small case with a truth"
    truth, drawn = answers[small.id], suite.inputs(small)
    contents = work.contents[:2]
    total = sum(a.nbytes for c in contents for a in c.values())
    if total > _MOST_BYTES:
        return f"the contents have {total} bytes; at most {_MOST_BYTES} are sent"
    outputs = [np.asarray(truth.arrays[t.name]).astype(np.float64) for t in ir.outputs]
    header = {
        "operators": names, "inputs": [t.name for t in ir.inputs], "seed": seed, "compile": compiled, "sets": len(contents),
        "small": [[t.dtype, list(t.dims(small.dims))] for t in ir.inputs], "truths": [list(a.shape) for a in outputs],
        "target": [[t.dtype, list(t.dims(work.dims))] for t in ir.inputs], "most": 200, "limit_s": 3.0,
        "scalars": _named(work.scalars, work.dims), "small_scalars": _named(small.scalars, small.dims),
        "allow_tf32": ir.numerics.precision == "allow_tf32",
    }  # fmt: skip
    blobs = [
        *(np.ascontiguousarray(drawn[t.name]).tobytes() for t in ir.inputs), *(a.tobytes() for a in outputs),
        *(np.ascontiguousarray(c[t.name]).tobytes() for c in contents for t in ir.inputs),
    ]  # fmt: skip
    return header, blobs


def _named(scalars: Mapping[str, Any], dims: Mapping[str, int]) -> dict[str, Any]:
    return {**scalars, **{f"dim:{n}": v for n, v in dims.items()}}


def _ask(
    job: tuple[dict[str, Any], list[bytes]] | str, executor: Clock, limit_s: float
) -> tuple[dict[str, Any], list[bytes]] | str:
    """Return the child's answer, or why there is none."""
    if isinstance(job, str):
        return job
    header, blobs = job
    environment = getattr(executor, "once_environment", allowed_environment)()
    device = executor.name.partition(":")[2]
    with tempfile.TemporaryDirectory(prefix="cuda-harness-torch-") as folder:
        path, answer = Path(folder) / "job", Path(folder) / "answer"
        with path.open("wb") as stream:
            write_frame(stream, {**header, "uuid": str(executor.facts()["uuid"])}, blobs)
        argv = [
            sys.executable,
            "-P",
            "-m",
            _MODULE,
            str(path),
            str(answer),
            device if device.isdecimal() else "0",
        ]
        extra = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/triton"}
        try:
            ended = run(argv, timeout_s=limit_s, env={**environment, **extra}, max_output=1 << 16)
        except ProgramMissing as exc:
            return f"its process does not start: {exc}"
        if ended.status != "exited" and not answer.is_file():  # else eager's times are there
            return f"it did not end within {limit_s:.0f} s"
        try:
            with answer.open("rb") as stream:
                header, blobs = read_frame(stream, max_bytes=_MOST_BYTES)
        except (OSError, EOFError, ValueError):
            return f"its process ended with {ended.returncode}: {ended.text()[-300:]}"
    return (header, blobs) if header["status"] == "ok" else str(header["message"])


def _times(header: dict[str, Any], blobs: list[bytes], work: Workload) -> tuple[LibraryTime, ...]:
    """Return the times of an operator whose outputs hold against the truth at the target."""
    if header["operator"] is None:
        return (LibraryTime(name=NAME, reason="no operator tried computes what the reference does"),)
    name = f"torch.{header['operator']}"
    wrong = wrong_outputs(header, blobs, work)
    notes = (f"its outputs are not within this IR's tolerance: {wrong[:200]}",) if wrong else ()
    found = []
    for mode, key in (("eager", "eager_us"), ("max-autotune", "compile_us")):
        if header.get(key):
            median = median_interval(header[key])
            found.append(
                LibraryTime(
                    name=f"{name}, {mode}", median_us=median.value, ci95_us=(median.low, median.high), samples=len(header[key]),
                    version=f"torch {header['torch']}", notes=notes,
                )
            )  # fmt: skip
        elif mode != "eager" and header.get("compile_reason"):
            found.append(LibraryTime(name=f"{name}, {mode}", reason=str(header["compile_reason"])))
    return tuple(found)


def wrong_outputs(header: dict[str, Any], blobs: list[bytes], work: Workload) -> str | None:
    """Return what is wrong with the operator's outputs on the first content set; `None`: nothing, or no truth."""
    if 0 not in work.answers:
        return None
    arrays = {}
    for tensor, (dtype, _), blob in zip(work.ir.outputs, header["outputs"], blobs, strict=False):
        wanted = np_dtype(tensor.dtype)
        given = {"float8_e4m3fn": "float8_e4m3"}.get(dtype, dtype)
        raw = np.frombuffer(blob, dtype=np_dtype(given))
        shape = tensor.dims(work.dims)
        if raw.size != int(np.prod(shape, dtype=np.int64)):
            return f"{tensor.name!r} has {raw.size} elements"
        wide = raw.astype(np.float64) if tensor.dtype in FLOATS else raw
        arrays[tensor.name] = wide.astype(wanted).reshape(shape)
    found = compare_outputs(work.ir, work.dims, arrays, expected_of(work.answers[0]), inputs=work.contents[0])
    return found.message if isinstance(found, Mismatch) else None
