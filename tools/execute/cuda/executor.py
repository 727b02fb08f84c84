"""`cuda[:N]`: jobs in disposable child processes, started ahead; the parent never touches CUDA."""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from cuda_harness.state.errors import ExecutorUnavailable
from cuda_harness.state.results import CompileOk, CompileRejected, CompileResult, CompileTimedOut
from cuda_harness.state.settings import Settings
from cuda_harness.tools.execute.cuda.wire import job_frame
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.execute.protocol import (
    CallOutput,
    DeviceFacts,
    Job,
    JobFault,
    JobNotRun,
    JobOk,
    JobResult,
    Mode,
)
from cuda_harness.tools.frames import read_frame, write_frame
from cuda_harness.tools.toolchain.nvrtc import Compiler

_START_S = 60.0
_MAX_FAULTS = 2
"""Unexplained deaths of a freshly probed device before it is left alone."""


def make(argument: str, *, settings: Settings, cancel: threading.Event | None = None) -> "CudaExecutor":
    """Return the executor of device `argument` (default 0)."""
    if argument and not argument.isdecimal():
        msg = f"cuda:{argument}"
        raise ExecutorUnavailable(msg, "a device is named by its number", remedy="use cuda:0")
    cache = Path(settings.cache) if settings.cache else None
    return CudaExecutor(int(argument or 0), cache=cache, cancel=cancel)


class _Child:
    """One waiting GPU child and its private channel."""

    def __init__(self, device: int) -> None:
        job_read, job_write = os.pipe()
        answer_read, answer_write = os.pipe()
        argv = [
            sys.executable,
            "-P",
            "-m",
            "cuda_harness.tools.execute.cuda.child",
            str(device),
            str(job_read),
            str(answer_write),
        ]
        keep = (
            "PATH",
            "HOME",
            "LD_LIBRARY_PATH",
            "CUDA_VISIBLE_DEVICES",
            "CUDA_HOME",
            "CUDA_PATH",
            "LANG",
            "PYTHONPATH",
            "TMPDIR",
        )
        environment = {k: v for k, v in os.environ.items() if k in keep}
        self.process = subprocess.Popen(
            argv, pass_fds=(job_read, answer_write), start_new_session=True, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        os.close(job_read)
        os.close(answer_write)
        self.jobs: BinaryIO = os.fdopen(job_write, "wb")
        self.answers: BinaryIO = os.fdopen(answer_read, "rb")
        self.ready: dict[str, Any] | None = None

    def receive(
        self, deadline: float, max_bytes: int, cancel: threading.Event
    ) -> tuple[dict[str, Any], list[bytes]] | None:
        """Return the next frame, `None` at the deadline or when cancelled; raises EOFError when the child died."""
        while not select.select([self.answers], [], [], 0.1)[0]:
            if time.monotonic() >= deadline or cancel.is_set():
                return None
        # Past the first byte the child is only copying; a reader thread still keeps the deadline.
        box: list[Any] = []

        def read() -> None:
            try:
                box.append(read_frame(self.answers, max_bytes=max_bytes))
            except (EOFError, ValueError, OSError) as exc:
                box.append(exc)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(max(1.0, deadline - time.monotonic() + 5.0))
        if not box:
            return None
        if isinstance(box[0], BaseException):
            raise EOFError(str(box[0]))
        found: tuple[dict[str, Any], list[bytes]] = box[0]
        return found

    def kill(self) -> str:
        """End the whole process group, reap it and return the tail of its stderr."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self.jobs.close()
        tail = b""
        with contextlib.suppress(OSError, ValueError, subprocess.TimeoutExpired):
            tail = self.process.communicate(timeout=10)[1] or b""
        with contextlib.suppress(OSError):
            self.answers.close()
        return tail[-2000:].decode("utf-8", "replace")


class CudaExecutor:
    """Runs jobs on one GPU."""

    modes: frozenset[Mode] = frozenset({"plain"})

    def __init__(
        self, device: int, *, cache: Path | None = None, cancel: threading.Event | None = None
    ) -> None:
        self.name = f"cuda:{device}"
        self._device = device
        self._compiler = Compiler(cache=cache)
        self._spare: _Child | None = None
        self._facts: dict[str, Any] | None = None
        self._faults = 0
        self._cancel = cancel or threading.Event()
        self._lock = threading.Lock()

    def facts(self) -> dict[str, Any]:
        """Return what the device says of itself (name, uuid, arch, limits, memory, L2).

        Raises:
            ExecutorUnavailable: If there is no such device, or CUDA does not start.
        """
        with self._lock:
            if self._facts is None:
                self._spare = self._started(self._spare or _Child(self._device))
            if self._facts is None:
                raise ExecutorUnavailable(self.name, "the device said nothing of itself")
            return self._facts

    def device(self) -> DeviceFacts:
        """Return the limits that launch checks and expressions use."""
        f = self.facts()
        return DeviceFacts(
            name=f["name"], num_sms=f["num_sms"], max_threads_per_block=f["max_threads_per_block"],
            max_block=tuple(f["max_block"]), max_grid=tuple(f["max_grid"]), shared_bytes_optin=f["shared_bytes_optin"],
            registers_per_block=f["registers_per_block"], memory_bytes=f["free_bytes"],
        )  # fmt: skip

    def run(self, job: Job) -> JobResult:
        """Compile off the GPU, run in a fresh child, and tell whose failure it is."""
        if job.mode == "check":
            return JobNotRun("unsupported", "check mode belongs to the CPU executor", "use --executor cpu")
        compiled = self._compiler.compile(
            job.source, arch=job.arch, macros=dict(job.program.macros), fast_math=job.fast_math,
            max_registers=job.max_registers, deadline_s=60.0,
        )  # fmt: skip
        if not isinstance(compiled, CompileOk):
            return _not_compiled(compiled)
        needed = sum(b.count * np_dtype(b.dtype).itemsize + 8192 for b in job.program.buffers)
        free = self.facts()["free_bytes"]
        if needed > free:
            return JobNotRun(
                "resources",
                f"the buffers need {needed} bytes, {free} are free on {self.name}",
                "use smaller sizes",
            )
        header, blobs = job_frame(job, Path(compiled.cubin_path).read_bytes())
        answered = self.ask(
            header, blobs, deadline_s=job.deadline_s, max_bytes=needed * len(job.calls) + (1 << 20)
        )
        if isinstance(answered, JobFault | JobNotRun):
            return answered
        return self._result(job, *answered)

    def compile(
        self, source: str, *, arch: str, macros: dict[str, int], fast_math: bool, max_registers: int | None
    ) -> CompileResult:
        """Return the cubin of a kernel; compilation never holds the GPU."""
        return self._compiler.compile(
            source,
            arch=arch,
            macros=macros,
            fast_math=fast_math,
            max_registers=max_registers,
            deadline_s=60.0,
        )

    def ask(
        self, header: dict[str, Any], blobs: list[bytes], *, deadline_s: float, max_bytes: int
    ) -> tuple[dict[str, Any], list[bytes]] | JobFault | JobNotRun:
        """Send one job to a child and return its answer; a hang or a death becomes a result."""
        with self._lock:
            child = self._started(self._spare or _Child(self._device))
            self._spare = None
        deadline = time.monotonic() + deadline_s
        try:
            sender = threading.Thread(target=_send, args=(child.jobs, header, blobs), daemon=True)
            sender.start()
            answer = child.receive(deadline, max_bytes, self._cancel)
        except EOFError:
            tail = child.kill()
            self._after_death()
            return JobFault(
                "crash", f"the GPU process died while the kernel ran: {tail[-300:] or 'no message'}"
            )
        finally:
            child.kill()
        with self._lock:
            if self._spare is None:
                self._spare = _Child(self._device)  # the next candidate finds a context that is ready
        if answer is None and self._cancel.is_set():
            return JobNotRun("environment", "the run was cancelled")
        if answer is None:
            self._after_death()
            return JobFault(
                "timeout",
                f"the kernel ran longer than {deadline_s:.0f} s and was stopped",
                {"seconds": deadline_s},
            )
        return answer

    def _started(self, child: _Child) -> _Child:
        """Wait until `child` is ready and note what the device says.

        Raises:
            ExecutorUnavailable: If CUDA does not start, or the device is quarantined.
        """
        if self._faults >= _MAX_FAULTS:
            child.kill()
            raise ExecutorUnavailable(
                self.name,
                "the device did not recover after faults",
                remedy="check nvidia-smi; use another device",
            )
        if child.ready is not None:
            return child
        try:
            first = child.receive(time.monotonic() + _START_S, 1 << 20, self._cancel)
        except EOFError:
            first = None
        if first is None or first[0].get("status") != "ready":
            tail = child.kill()
            reason = (first[0].get("message") if first else None) or tail[-300:] or "CUDA did not start"
            raise ExecutorUnavailable(
                self.name, str(reason), remedy="see `cuda-harness doctor`, or use --executor cpu"
            )
        child.ready = first[0]
        self._facts = first[0]["device"]
        return child

    def _after_death(self) -> None:
        """Probe the device after a fault or a kill; one that does not answer is counted."""
        try:
            with self._lock:
                self._spare = self._started(self._spare or _Child(self._device))
        except ExecutorUnavailable:
            self._faults += 1
        else:
            self._faults = 0

    def _result(self, job: Job, header: dict[str, Any], blobs: list[bytes]) -> JobResult:
        if header["status"] == "fault":
            return JobFault(header["fault"], header["message"], header.get("evidence", {}))
        if header["status"] != "ok":
            return JobNotRun(header["reason"], header["message"], "see `cuda-harness doctor`")
        names = header["outputs"]
        by_name = {b.name: b for b in job.program.buffers}
        calls = []
        for index, unwritten in enumerate(header["unwritten"]):
            arrays = {}
            if job.full_output:
                for name, blob in zip(names, blobs[index * len(names) :], strict=False):
                    arrays[name] = np.frombuffer(blob, dtype=np_dtype(by_name[name].dtype)).copy()
            calls.append(CallOutput(arrays, {n: int(v) for n, v in unwritten.items()}, {}))
        return JobOk(tuple(calls), float(header["seconds"]))

    def estimate_s(self, job: Job) -> float | None:  # noqa: ARG002 - the protocol's signature
        """Return `None`: on a GPU every size that fits is bearable."""
        return None

    def close(self) -> None:
        """End the waiting child and the compiler."""
        with self._lock:
            child, self._spare = self._spare, None
        if child is not None:
            child.kill()
        self._compiler.close()


def _send(stream: BinaryIO, header: dict[str, Any], blobs: list[bytes]) -> None:
    with contextlib.suppress(OSError, ValueError):  # a child that died answers by its death
        write_frame(stream, header, blobs)


def _not_compiled(compiled: Any) -> JobResult:  # noqa: ANN401 - the other compile results
    if isinstance(compiled, CompileRejected):
        return JobFault("compile", compiled.log[:2000])
    if isinstance(compiled, CompileTimedOut):
        return JobFault("compile", f"the compiler did not end within {compiled.seconds:.0f} s")
    return JobNotRun("environment", compiled.message, compiled.remedy)
