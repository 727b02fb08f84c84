"""Runs references in contained children."""

import contextlib
import io
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cuda_harness.state.errors import SandboxUnavailable, ToolchainError
from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.execute.dtypes import to_reference
from cuda_harness.tools.frames import PIPE_BYTES, read_frame, wide_pipe, write_frame
from cuda_harness.tools.process import allowed_environment, die_with_parent, lasting
from cuda_harness.tools.synthesize.reference_child import ENDED, describe_arrays
from cuda_harness.tools.synthesize.reply import (
    FORGED,
    Question,
    ReferenceFault,
    Truth,
    read_each,
    read_reply,
)

__all__ = ["Question", "ReferenceFault", "ReferenceRunner", "Truth"]

_ANSWER_BYTES = 32 << 20
"""Bytes of an answer beyond the declared outputs: its header, and outputs in a wider type."""
_BASE_MEMORY = 2 << 30
"""Address space of Python, NumPy and SciPy themselves."""


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
        found = self._exchange(source, ir, questions, deadline_s, tolerant=False)
        if isinstance(found, ReferenceFault):
            return found
        return read_reply(ir, questions, *found)

    def evaluate_each(
        self, source: str, ir: KernelIR, questions: Sequence[Question], *, deadline_s: float = 60.0
    ) -> list[Truth | None] | ReferenceFault:
        """Return what `source` says of each question, `None` where it raises or answers in other shapes.

        For questions that a reference may refuse: inputs that are read the wrong way.

        Raises:
            SandboxUnavailable, ToolchainError: As `evaluate`.
        """
        found = self._exchange(source, ir, questions, deadline_s, tolerant=True)
        if isinstance(found, ReferenceFault):
            return found
        return read_each(ir, questions, *found)

    def _exchange(
        self, source: str, ir: KernelIR, questions: Sequence[Question], deadline_s: float, *, tolerant: bool
    ) -> tuple[dict[str, Any], list[bytes]] | ReferenceFault:
        """Return the child's reply and its blobs, or why there is none."""
        heads, blobs, declared = [], [], 0
        outputs: dict[tuple[tuple[str, int], ...], int] = {}
        for q in questions:
            given = {t.name: to_reference(t.dtype, np.asarray(q.inputs[t.name])) for t in ir.inputs}
            case_heads, case_blobs = describe_arrays(given)
            heads.append({"inputs": case_heads, "dims": dict(q.dims), "scalars": dict(q.scalars)})
            blobs.extend(case_blobs)
            sizes = tuple(q.dims.items())
            if sizes not in outputs:
                outputs[sizes] = sum(9 * int(np.prod(t.dims(q.dims), dtype=np.int64)) for t in ir.outputs)
            declared += outputs[sizes]
        asked = declared + sum(map(len, blobs))
        memory = _planned_memory(asked)
        if memory is None:
            return ReferenceFault(
                "resources", f"the reference needs about {asked >> 20} MiB several times over; less is free"
            )
        header = {
            "source": source, "cases": heads, "seconds": deadline_s, "memory": memory, "unsafe": self._unsafe,
            "max_bytes": 4 * declared + _ANSWER_BYTES, "tolerant": tolerant,
        }  # fmt: skip
        with self._lock:
            answered = self._ask(header, blobs, deadline_s)
        if isinstance(answered, ReferenceFault):
            return answered
        reply = answered[0]
        if reply["status"] == "no_sandbox":
            raise SandboxUnavailable(
                str(reply["message"]), remedy="--unsafe-exec runs code you trust without it"
            )
        return answered

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
                return ReferenceFault("forged", FORGED)
        except (EOFError, ValueError, KeyError, TypeError, RecursionError):
            if letter.getbuffer().nbytes:
                return ReferenceFault("forged", FORGED)
            return ReferenceFault("killed", "the reference ended its process before it returned")
        return answer

    def _start(self) -> None:
        if self._closed:
            msg = "the run is over, and its references with it"
            raise ToolchainError(msg, remedy="go on with it: cuda-harness resume")
        if self._process is not None and self._process.poll() is None:
            return
        self._stop()
        read_end, write_end = wide_pipe()
        environment = allowed_environment(
            {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        )
        argv = [
            sys.executable, "-P", "-m", "cuda_harness.tools.synthesize.reference_child", str(write_end),
        ]  # fmt: skip
        try:
            self._process = lasting(
                lambda: subprocess.Popen(
                    argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(write_end,),
                    start_new_session=True, env=environment, preexec_fn=die_with_parent, pipesize=PIPE_BYTES,
                )
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
