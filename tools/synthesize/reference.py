"""Runs references in contained children and normalises what they return."""

import contextlib
import io
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.errors import SandboxUnavailable, ToolchainError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import FLOATS
from cuda_harness.tools.execute.dtypes import np_dtype, to_reference
from cuda_harness.tools.frames import read_frame, write_frame
from cuda_harness.tools.process import allowed_environment, die_with_parent
from cuda_harness.tools.synthesize.reference_child import ENDED, describe_arrays, rebuild

Array = NDArray[Any]
_ANSWER_BYTES = 32 << 20
"""Bytes of an answer beyond the declared outputs: its header, and outputs in a wider type."""
_BASE_MEMORY = 2 << 30
"""Address space of Python, NumPy and SciPy themselves."""

FaultKind = Literal[
    "raised",
    "hung",
    "killed",
    "memory",
    "bad_shape",
    "bad_dtype",
    "missing_output",
    "nondeterministic",
    "forged",
    "resources",
]


@dataclass(frozen=True)
class ReferenceFault:
    """A reference that cannot be used: the oracle's fault, never a kernel's."""

    kind: FaultKind
    message: str
    case: int | None = None


@dataclass(frozen=True)
class Truth:
    """What a reference says of one case: arrays by output, and masks of the elements it defines."""

    arrays: dict[str, Array]
    defined: dict[str, Array]
    beyond: frozenset[str] = frozenset()
    """Integer outputs with values that their type cannot hold."""


@dataclass(frozen=True)
class Question:
    """One evaluation: inputs in the tensors' exact dtypes, sizes, scalars."""

    inputs: Mapping[str, Array]
    dims: Mapping[str, int]
    scalars: Mapping[str, float | int | bool]


class ReferenceRunner:
    """One warm process that forks a contained child per batch; thread-safe."""

    def __init__(self, *, unsafe: bool = False) -> None:
        self._unsafe = unsafe
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._answers: int | None = None

    def evaluate(
        self, source: str, ir: KernelIR, questions: Sequence[Question], *, deadline_s: float = 60.0
    ) -> list[Truth] | ReferenceFault:
        """Return what `source` says of each question, or what is wrong with it.

        Raises:
            SandboxUnavailable: If foreign Python cannot be contained here.
            ToolchainError: If the child does not start.
        """
        heads, blobs, declared = [], [], 0
        for q in questions:
            given = {t.name: to_reference(t.dtype, np.asarray(q.inputs[t.name])) for t in ir.inputs}
            case_heads, case_blobs = describe_arrays(given)
            heads.append({"inputs": case_heads, "dims": dict(q.dims), "scalars": dict(q.scalars)})
            blobs.extend(case_blobs)
            declared += sum(9 * int(np.prod(t.dims(q.dims), dtype=np.int64)) for t in ir.outputs)
        asked = declared + sum(map(len, blobs))
        memory = _planned_memory(asked)
        if memory is None:
            return ReferenceFault(
                "resources", f"the reference needs about {asked >> 20} MiB several times over; less is free"
            )
        header = {
            "source": source, "cases": heads, "seconds": deadline_s, "memory": memory, "unsafe": self._unsafe,
            "max_bytes": 4 * declared + _ANSWER_BYTES,
        }  # fmt: skip
        with self._lock:
            answered = self._ask(header, blobs, deadline_s)
        if isinstance(answered, ReferenceFault):
            return answered
        reply, data = answered
        if reply["status"] == "no_sandbox":
            raise SandboxUnavailable(
                str(reply["message"]), remedy="--unsafe-exec runs code you trust without it"
            )
        return _read_reply(ir, questions, reply, data)

    def _ask(
        self, header: dict[str, Any], blobs: list[bytes], deadline_s: float
    ) -> tuple[dict[str, Any], list[bytes]] | ReferenceFault:
        self._start()
        assert self._process is not None  # noqa: S101 - just started
        assert self._process.stdin is not None  # noqa: S101
        assert self._answers is not None  # noqa: S101
        try:
            write_frame(self._process.stdin, header, blobs)
            letter, ended = read_envelope(self._answers, time.monotonic() + deadline_s + 10)
        except (EOFError, OSError) as exc:
            self._stop()
            return ReferenceFault("killed", f"the reference's process ended: {exc}")
        except BaseException:
            self._stop()
            raise
        if ended == "hung":
            return ReferenceFault("hung", f"the reference did not end within {deadline_s:.0f} s")
        if ended == "too_large":
            return ReferenceFault("bad_shape", "the reference returns far more than the outputs of the IR")
        try:
            answer = read_frame(letter, max_bytes=header["max_bytes"])
            if letter.read(1):
                return ReferenceFault("forged", "the reference wrote to the channel of its own answer")
        except (EOFError, ValueError, KeyError, TypeError, RecursionError):
            if letter.getbuffer().nbytes:
                return ReferenceFault("forged", "the reference wrote to the channel of its own answer")
            return ReferenceFault("killed", "the reference ended its process before it returned")
        return answer

    def _start(self) -> None:
        if self._closed:
            msg = "the run is over, and its references with it"
            raise ToolchainError(msg, remedy="go on with it: cuda-harness resume")
        if self._process is not None and self._process.poll() is None:
            return
        self._stop()
        read_end, write_end = os.pipe()
        environment = allowed_environment(
            {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        )
        argv = [
            sys.executable, "-P", "-m", "cuda_harness.tools.synthesize.reference_child", str(write_end),
        ]  # fmt: skip
        try:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                pass_fds=(write_end,), start_new_session=True, env=environment, preexec_fn=die_with_parent,
            )  # fmt: skip
        except OSError as exc:
            msg = f"the reference process does not start: {exc}"
            raise ToolchainError(msg, remedy="see `cuda-harness doctor`") from exc
        finally:
            os.close(write_end)
        self._answers = read_end

    def _stop(self) -> None:
        process, answers = self._process, self._answers
        self._process = self._answers = None
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
        if answers is not None:
            os.close(answers)

    def close(self) -> None:
        """End the process, for good: a thread that still asks starts none again; idempotent."""
        with self._lock:
            self._closed = True
            self._stop()


def _planned_memory(asked: int) -> int | None:
    """Return the address space a child may have for `asked` bytes of inputs and outputs, `None` when too little is free."""
    free = 8 << 30
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    if 3 * asked > free * 3 // 4:
        return None
    return _BASE_MEMORY + min(max(2 << 30, 16 * asked), free * 3 // 4)


def read_envelope(descriptor: int, deadline: float) -> tuple[io.BytesIO, str]:
    """Return all bytes of one child's answer and how the child ended (a key of `ENDED`).

    Raises:
        EOFError: If the warm process ended or stays silent beyond the deadline.
    """

    def exactly(size: int) -> bytearray:
        data = bytearray()
        while len(data) < size:
            if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
                msg = "it is silent"
                raise EOFError(msg)
            piece = os.read(descriptor, min(size - len(data), 1 << 20))
            if not piece:
                msg = "it closed its channel"
                raise EOFError(msg)
            data += piece
        return data

    letter = io.BytesIO()
    while size := int.from_bytes(exactly(8), "little"):
        letter.write(exactly(size))
    state = int.from_bytes(exactly(8), "little")
    letter.seek(0)
    return letter, next(name for name, number in ENDED.items() if number == state)


def _read_reply(
    ir: KernelIR, questions: Sequence[Question], reply: Mapping[str, Any], data: list[bytes]
) -> list[Truth] | ReferenceFault:
    """Return the truths in a reply; it came from a process that ran foreign code, so nothing in it is taken on trust."""
    try:
        if reply["status"] == "fault":
            kind: FaultKind = "memory" if reply["kind"] == "memory" else "raised"
            case = reply.get("case")
            return ReferenceFault(
                kind,
                f"the reference failed: {reply['message']}"[:1_000],
                int(case) if case is not None else None,
            )
        cases = reply["cases"]
        if len(cases) != len(questions) or sum(map(len, cases)) != len(data):
            return ReferenceFault("forged", "the reference's answer does not fit the questions")
        return _normalised(ir, questions, cases, data)
    except (KeyError, TypeError, ValueError):
        return ReferenceFault("forged", "the reference wrote to the channel of its own answer")


def _normalised(
    ir: KernelIR, questions: Sequence[Question], heads: list[list[dict[str, Any]]], blobs: list[bytes]
) -> list[Truth] | ReferenceFault:
    truths, at = [], 0
    for number, (question, case) in enumerate(zip(questions, heads, strict=True)):
        try:
            found = rebuild(case, blobs[at : at + len(case)])
        except (ValueError, TypeError) as exc:
            return ReferenceFault("bad_dtype", f"the reference returned no plain arrays: {exc}", number)
        at += len(case)
        truth = normalise(ir, question.dims, found)
        if isinstance(truth, str):
            kind: FaultKind = (
                "missing_output"
                if "returns no" in truth
                else "bad_dtype"
                if "dtype" in truth
                else "bad_shape"
            )
            return ReferenceFault(kind, truth, number)
        truths.append(truth)
    return truths


def normalise(ir: KernelIR, dims: Mapping[str, int], found: Mapping[str, Array]) -> Truth | str:
    """Return the outputs in comparable form, or what is wrong with them.

    A size-1 difference (0-d for [1], trailing ones) is forgiven when the element count agrees; any other shape is not.
    Integers beyond the range of an unsigned type wrap, as its arithmetic does; beyond a signed one they have no value
    there, and the output is named in `beyond`.
    """
    arrays, defined, beyond = {}, {}, set()
    for tensor in ir.outputs:
        if tensor.name not in found:
            return f"the reference returns no {tensor.name!r} (it returns: {', '.join(found) or 'nothing'})"
        array, shape = found[tensor.name], tensor.dims(dims)
        squeezed = tuple(n for n in array.shape if n != 1) == tuple(n for n in shape if n != 1)
        if array.shape != shape and not (squeezed and array.size == int(np.prod(shape))):
            return f"the reference's {tensor.name!r} has shape {list(array.shape)}, the IR says {list(shape)}"
        array = array.reshape(shape)
        mask = found.get(f"{tensor.name}.defined")
        if mask is not None:
            if mask.size != array.size:
                return (
                    f"the mask '{tensor.name}.defined' has shape {list(mask.shape)}, its output {list(shape)}"
                )
            defined[tensor.name] = mask.reshape(shape).astype(bool)
            array = np.where(defined[tensor.name], array, np.zeros((), dtype=array.dtype))
        if tensor.dtype in FLOATS:
            arrays[tensor.name] = array.astype(np.float64)
            continue
        if array.dtype.kind == "f" and not (np.isfinite(array).all() and (array == np.rint(array)).all()):
            return f"the reference's {tensor.name!r} has dtype {array.dtype} with fractions, the IR says {tensor.dtype}"
        if not _holds(tensor.dtype, array):
            beyond.add(tensor.name)
        with np.errstate(invalid="ignore"):
            arrays[tensor.name] = array.astype(np_dtype(tensor.dtype))
    return Truth(arrays, defined, frozenset(beyond))


def _holds(dtype: str, array: Array) -> bool:
    """Return whether an integer type has a value for every element: a signed one only inside its range."""
    if dtype == "bool" or not array.size or array.dtype.kind == "b":
        return True
    info = np.iinfo(np_dtype(dtype))
    if info.min == 0 and array.dtype.kind != "f":
        return True
    return bool(info.min <= int(array.min()) and int(array.max()) <= info.max)
