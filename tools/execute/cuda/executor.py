"""`cuda[:N|:UUID|:auto]`: jobs in child processes started ahead, one for each candidate; the parent never touches CUDA."""

import hashlib
import math
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cuda_harness.state.errors import ExecutorUnavailable
from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import CompileOk, CompileRejected, CompileResult, CompileTimedOut
from cuda_harness.state.settings import Settings
from cuda_harness.tools.execute.cuda.health import PROBE, Health, probe_frame, probe_is_right
from cuda_harness.tools.execute.cuda.lock import Claim, claim
from cuda_harness.tools.execute.cuda.memory import GUARD, planned_bytes
from cuda_harness.tools.execute.cuda.pool import NotStarted, Pool
from cuda_harness.tools.execute.cuda.wire import job_frame
from cuda_harness.tools.execute.cuda.worker import (
    CHILD_MODULE,
    Command,
    Frame,
    Worker,
    child_command,
    child_environment,
)
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.execute.protocol import (
    CallOutput,
    DeviceFacts,
    Job,
    JobFault,
    JobNotRun,
    JobOk,
    JobResult,
    LaunchOp,
    Mode,
)
from cuda_harness.tools.frames import write_frame
from cuda_harness.tools.toolchain.nvrtc import Compiler

LOCK_S = 300.0
"""Seconds a job waits for the GPU's lock before it says that another process holds it."""
_PROBE_S = 30.0
_TRANSFER_BYTES_PER_S = 100e6
"""A low guess of a pipe's speed, for the time a job may take until it has arrived."""


def make(argument: str, *, settings: Settings, cancel: threading.Event | None = None) -> "CudaExecutor":
    """Return the executor of a device: a number (default 0), `auto`, or a UUID as in nvidia-smi -L.

    Raises:
        ExecutorUnavailable: If no device goes by that name.
    """
    from cuda_harness.tools.execute.cuda.devices import choose

    chosen = choose(argument)
    cache = Path(settings.cache) if settings.cache else None
    return CudaExecutor(
        chosen.index, cache=cache, cancel=cancel, environment=chosen.environment, claimed=chosen.claim
    )


class CudaExecutor:
    """Runs jobs on one GPU."""

    modes: frozenset[Mode] = frozenset({"plain"})

    def __init__(
        self, device: int, *, cache: Path | None = None, cancel: threading.Event | None = None,
        environment: Mapping[str, str] | None = None, command: Command | None = None, compiler: Compiler | None = None,
        claimed: Claim | None = None, lock_s: float = LOCK_S,
    ) -> None:  # fmt: skip
        self.name = f"cuda:{device}"
        self._device, self._environment = device, dict(environment or {})
        self._claim = claimed
        self._compiler = compiler or Compiler(cache=cache)
        self._cancel = cancel or threading.Event()
        self._pool = Pool(command or child_command(device), environment=environment, cancel=self._cancel)
        self._health = Health()
        self._facts: dict[str, Any] | None = None
        self._lock = threading.Lock()
        self._lock_s = lock_s
        self._resident: dict[tuple[str, str, int, int], int | None] = {}
        self._gpu_seconds = 0.0
        self._waited_s = 0.0
        self._pool.prepare()

    @property
    def gpu_seconds(self) -> float:
        """Seconds in which children of this executor held the device for a job, waiting and starting left out."""
        return self._gpu_seconds

    @property
    def waited_s(self) -> float:
        """Seconds in which jobs waited for the GPU's lock."""
        return self._waited_s

    def facts(self) -> dict[str, Any]:
        """Return what the device says of itself (name, uuid, arch, limits, memory, L2).

        Raises:
            ExecutorUnavailable: If there is no such device, or CUDA does not start.
        """
        with self._lock:
            if self._facts is None:
                try:
                    worker = self._pool.take(None)
                except NotStarted as exc:
                    raise ExecutorUnavailable(self.name, exc.reason, remedy=exc.remedy) from exc
                self._facts = dict(worker.ready or {})
                self._claim = self._claim or claim(self._facts["uuid"])
                self._pool.give_spare(worker)
            return self._facts

    def device(self) -> DeviceFacts:
        """Return the limits that launch checks and expressions use."""
        f = self.facts()
        return DeviceFacts(
            name=f["name"], num_sms=f["num_sms"], max_threads_per_block=f["max_threads_per_block"],
            max_block=tuple(f["max_block"]), max_grid=tuple(f["max_grid"]), shared_bytes_optin=f["shared_bytes_optin"],
            registers_per_block=f["registers_per_block"], memory_bytes=f["free_bytes"], arch=f["arch"],
        )  # fmt: skip

    def run(self, job: Job) -> JobResult:
        """Compile off the GPU, run in the candidate's child, and tell whose failure it is."""
        if job.mode == "check":
            return JobNotRun("unsupported", "check mode belongs to the CPU executor", "use --executor cpu")
        compiled = self.compile(
            job.source, arch=job.arch, macros=dict(job.program.macros), fast_math=job.fast_math,
            max_registers=job.max_registers,
        )  # fmt: skip
        if not isinstance(compiled, CompileOk):
            return _not_compiled(compiled)
        sizes = [b.count * np_dtype(b.dtype).itemsize for b in job.program.buffers]
        needed, total = planned_bytes(sizes, guard=GUARD), self.facts()["memory_bytes"]
        if needed > total:
            message = f"the buffers need {needed / 2**30:.1f} GiB, {self.name} has {total / 2**30:.1f} GiB"
            evidence = {"needed_bytes": needed, "usable_bytes": total}
            return JobNotRun("resources", message, "use smaller sizes", evidence)
        header, blobs = job_frame(job, Path(compiled.cubin_path).read_bytes())
        key = candidate_key(
            job.source, arch=job.arch, fast_math=job.fast_math, max_registers=job.max_registers,
            own_allocations=job.own_allocations,
        )  # fmt: skip
        most = needed * len(job.calls) + (1 << 20)
        shared = None if job.fresh_process else key
        answered = self.ask(header, blobs, deadline_s=job.deadline_s, max_bytes=most, key=shared)
        # Contexts of waiting children hold memory: without them the buffers may fit.
        if isinstance(answered, tuple) and _lacks_memory(answered[0]) and self._pool.trim():
            answered = self.ask(header, blobs, deadline_s=job.deadline_s, max_bytes=most, key=shared)
        if isinstance(answered, JobFault | JobNotRun):
            return answered
        return _result(job, *answered)

    def blocks_per_sm(self, kernel: Kernel, op: LaunchOp, *, arch: str, macros: dict[str, int]) -> int | None:
        """Return resident blocks per multiprocessor for a launch, from the occupancy API; `None` where it cannot tell.

        Args:
            kernel: Source and compile options.
            op: The launch; its block and dynamic shared memory count.
            arch: Architecture to compile for.
            macros: Tunables and defines.
        """
        options = kernel.plan.compile
        compiled = self.compile(
            kernel.source, arch=arch, macros=macros, fast_math=options.fast_math, max_registers=options.max_registers
        )  # fmt: skip
        if not isinstance(compiled, CompileOk):
            return None
        threads = math.prod(op.block)
        key = (compiled.cubin_sha256, op.kernel, threads, op.shared_bytes)
        if key not in self._resident:
            header = {
                "do": "occupancy",
                "kernel": op.kernel,
                "threads": threads,
                "shared_bytes": op.shared_bytes,
            }
            mine = candidate_key(
                kernel.source, arch=arch, fast_math=options.fast_math, max_registers=options.max_registers
            )
            answered = self.ask(
                header, [Path(compiled.cubin_path).read_bytes()], deadline_s=10.0, max_bytes=1 << 20, key=mine,
            )  # fmt: skip
            told = answered[0] if isinstance(answered, tuple) else {}
            self._resident[key] = int(told["blocks_per_sm"]) if told.get("status") == "ok" else None
        return self._resident[key]

    def compile(
        self, source: str, *, arch: str, macros: dict[str, int], fast_math: bool, max_registers: int | None
    ) -> CompileResult:
        """Return the cubin of a kernel; compilation never holds the GPU."""
        return self._compiler.compile(
            source, arch=arch, macros=macros, fast_math=fast_math, max_registers=max_registers, deadline_s=60.0,
        )  # fmt: skip

    def write_job(self, job: Job, path: Path) -> CompileResult:
        """Write a job to a file for `once_command`, and return how it compiled; without a cubin there is no file."""
        compiled = self.compile(
            job.source, arch=job.arch, macros=dict(job.program.macros), fast_math=job.fast_math,
            max_registers=job.max_registers,
        )  # fmt: skip
        if isinstance(compiled, CompileOk):
            with path.open("wb") as stream:
                write_frame(stream, *job_frame(job, Path(compiled.cubin_path).read_bytes()))
        return compiled

    def once_command(self, path: Path, answer: Path | None = None) -> list[str]:
        """Return the program that runs a job file on this device, to be put behind compute-sanitizer or ncu.

        It exits with 0 (ok), 1 (the candidate's fault) or 2 (not run), and leaves its answer's frame in `answer`.
        """
        argv = [sys.executable, "-P", "-m", CHILD_MODULE, "--once", str(path), "--device", str(self._device)]
        return [*argv, "--answer", str(answer)] if answer is not None else argv

    def once_environment(self) -> dict[str, str]:
        """Return the environment for `once_command`."""
        return child_environment(self._environment)

    def ask(
        self, header: dict[str, Any], blobs: list[bytes], *, deadline_s: float, max_bytes: int, key: str | None = None,
        exclusive: bool | None = None,
    ) -> Frame | JobFault | JobNotRun:  # fmt: skip
        """Send one job to a child and return its answer; a hang or a death becomes a result.

        Args:
            header: The job; `do` says which.
            blobs: Its binary parts.
            deadline_s: Wall seconds from the moment the child has the GPU's lock; then its process group is killed.
            max_bytes: Bound on the bytes of the answer.
            key: Candidate whose child may be used again; `None`: a process of its own.
            exclusive: Whether nobody else may use the GPU meanwhile; `None`: all but plain runs.
        """
        alone = header["do"] not in {"run", "occupancy"} if exclusive is None else exclusive
        refused = self._unhealthy()
        if refused is not None:
            return refused
        try:
            worker = self._pool.take(key)
        except NotStarted as exc:
            return self._not_started(exc)
        if alone:
            self._pool.settle()  # a context made meanwhile would disturb the clock
        else:
            self._pool.prepare()  # the next candidate finds a context that is ready
        lock = {"exclusive": alone, "timeout_s": self._lock_s, "ours": self._pool.pids()}
        try:
            return self._converse(worker, {**header, "lock": lock}, blobs, deadline_s, max_bytes, key)
        finally:
            self._pool.prepare()

    def _converse(
        self, worker: Worker, header: dict[str, Any], blobs: list[bytes], deadline_s: float, max_bytes: int, key: str | None
    ) -> Frame | JobFault | JobNotRun:  # fmt: skip
        """Send, await `started`, then the answer before the deadline; book what was used; keep or end the child."""
        patience = self._lock_s + 30.0 + sum(map(len, blobs)) / _TRANSFER_BYTES_PER_S
        began: float | None = None
        answer: Frame | None = None
        died = False
        try:
            worker.send(header, blobs)
            answer = worker.receive(time.monotonic() + patience, 1 << 20, self._cancel)
            if answer is not None and answer[0].get("status") == "started":
                began = time.monotonic()
                self._note(waited_s=float(answer[0]["waited_s"]))
                answer = worker.receive(began + deadline_s, max_bytes, self._cancel)
        except EOFError:
            answer, died = None, True
        if began is not None:
            told = answer[0].get("device_seconds") if answer is not None else None
            self._note(gpu_seconds=float(told) if told is not None else time.monotonic() - began)
        if answer is not None and _is_clean(answer[0]):
            self._pool.give(key, worker)
            return answer
        said = self._pool.drop(worker)
        if self._cancel.is_set() or self._pool.is_closed:
            return JobNotRun("environment", "the run was cancelled")
        self._health.suspect()
        if answer is not None:
            return _with_assertion(answer, said)
        if began is None:
            return JobNotRun(
                "environment", f"the GPU process took no job: {said.strip()[-300:] or 'no message'}"
            )
        if died:
            return JobFault(
                "crash",
                f"the GPU process died while the kernel ran: {said.strip()[-300:] or 'no message'}",
            )
        return JobFault(
            "timeout",
            f"the kernel ran longer than {deadline_s:.0f} s and was stopped",
            {"seconds": deadline_s},
        )

    def _note(self, *, gpu_seconds: float = 0.0, waited_s: float = 0.0) -> None:
        with self._lock:
            self._gpu_seconds += gpu_seconds
            self._waited_s += waited_s

    def _not_started(self, exc: NotStarted) -> JobNotRun:
        """Return why no child came up; raises ExecutorUnavailable when none ever did."""
        if self._cancel.is_set():
            return JobNotRun("environment", "the run was cancelled")
        if self._facts is None:
            raise ExecutorUnavailable(self.name, exc.reason, remedy=exc.remedy) from exc
        self._health.failed(exc.reason)
        return JobNotRun("environment", f"{self.name}: {exc.reason}", exc.remedy)

    def _unhealthy(self) -> JobNotRun | None:
        """Probe the device with a tiny kernel in a new child when the last job was ended by force or by a fault."""
        while self._health.must_probe:
            with self._health.probing:
                if self._health.must_probe:
                    self._probe()
        if self._health.quarantined is None:
            return None
        message = (
            f"{self.name} is left alone: it did not run a tiny kernel twice after a fault "
            f"({self._health.quarantined})"
        )
        return JobNotRun(
            "environment", message, "look at nvidia-smi and the system's log; use another device, or restart"
        )

    def _probe(self) -> None:
        compiled = self.compile(
            PROBE, arch=self.facts()["arch"], macros={}, fast_math=False, max_registers=None
        )
        if not isinstance(compiled, CompileOk):
            self._health.passed()  # no word on the device: jobs will tell
            return
        header, blobs = probe_frame(Path(compiled.cubin_path).read_bytes())
        try:
            worker = self._pool.take(None)
        except NotStarted as exc:
            self._health.failed(exc.reason)
            return
        answer: Frame | None = None
        try:
            worker.send(
                {**header, "lock": {"exclusive": False, "timeout_s": self._lock_s, "ours": []}}, blobs
            )
            answer = worker.receive(time.monotonic() + self._lock_s + _PROBE_S, 1 << 20, self._cancel)
            if answer is not None and answer[0].get("status") == "started":
                answer = worker.receive(time.monotonic() + _PROBE_S, 1 << 20, self._cancel)
        except EOFError:
            answer = None
        held_by_others = answer is not None and answer[0].get("reason") == "resources"
        if answer is not None and (held_by_others or probe_is_right(answer)):
            self._health.passed()
            self._pool.give_spare(worker)
            return
        said = self._pool.drop(worker)
        told = answer[0].get("message") if answer is not None else None
        self._health.failed(str(told or said.strip()[-200:] or "no answer"))

    def estimate_s(self, job: Job) -> float | None:  # noqa: ARG002 - the protocol's signature
        """Return `None`: on a GPU every size that fits is bearable."""
        return None

    def close(self) -> None:
        """End all children and the compiler; idempotent."""
        self._pool.close()
        self._compiler.close()
        if self._claim is not None:
            self._claim.release()


def candidate_key(
    source: str, *, arch: str, fast_math: bool, max_registers: int | None, own_allocations: bool = False
) -> str:
    """Return the identity of a candidate: its text and options, whatever its tunables."""
    text = f"{arch}|{fast_math}|{max_registers}|{own_allocations}|{source}"
    return hashlib.sha256(text.encode()).hexdigest()


def _lacks_memory(header: dict[str, Any]) -> bool:
    return header.get("reason") == "resources" and "needed_bytes" in header.get("evidence", {})


def _is_clean(header: dict[str, Any]) -> bool:
    """Return whether the child's context is beyond doubt after this answer."""
    return header["status"] == "ok" or header.get("reason") == "resources"


def _with_assertion(answer: Frame, said: str) -> Frame | JobFault:
    """Add the first failed device assertion that the driver printed to a crash."""
    header = answer[0]
    line = next((x.strip() for x in said.splitlines() if "Assertion" in x), None)
    if header["status"] != "fault" or header.get("fault") != "crash" or line is None:
        return answer
    evidence = {**header.get("evidence", {}), "assertion": line[:300]}
    return JobFault("crash", f"{header['message']}: {line[:300]}", evidence)


def _result(job: Job, header: dict[str, Any], blobs: list[bytes]) -> JobResult:
    if header["status"] == "fault":
        return JobFault(header["fault"], header["message"], header.get("evidence", {}))
    if header["status"] != "ok":
        reason: Literal["unsupported", "resources", "environment"] = header["reason"]
        remedy = header.get("remedy") or (
            "use smaller sizes" if reason == "resources" else "see `cuda-harness doctor`"
        )
        return JobNotRun(reason, header["message"], remedy, header.get("evidence", {}))
    names = header["outputs"]
    by_name = {b.name: b for b in job.program.buffers}
    calls = []
    for index, unwritten in enumerate(header["unwritten"]):
        arrays = {}
        if job.full_output:
            for name, blob in zip(names, blobs[index * len(names) :], strict=False):
                arrays[name] = np.frombuffer(blob, dtype=np_dtype(by_name[name].dtype)).copy()
        calls.append(CallOutput(arrays, {n: int(v) for n, v in unwritten.items()}, {}))
    return JobOk(tuple(calls), float(header["seconds"]), facts={"launches": float(header["launches"])})


def _not_compiled(compiled: CompileResult) -> JobResult:
    if isinstance(compiled, CompileRejected):
        return JobFault("compile", compiled.log[:2000])
    if isinstance(compiled, CompileTimedOut):
        return JobFault("compile", f"the compiler did not end within {compiled.seconds:.0f} s")
    if isinstance(compiled, CompileOk):
        msg = "a cubin was made"
        raise TypeError(msg)
    return JobNotRun("environment", compiled.message, compiled.remedy)
