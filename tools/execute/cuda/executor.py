"""`cuda[:N|:UUID|:auto]`: jobs in child processes started ahead, one for each candidate; the parent never touches CUDA."""

import hashlib
import math
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from cuda_harness.state.errors import ExecutorUnavailable
from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import CompileOk, CompileRejected, CompileResult, CompileTimedOut
from cuda_harness.state.settings import Settings
from cuda_harness.tools.execute.cuda.dispatch import LOCK_S, NOT_WANTED, Dispatch
from cuda_harness.tools.execute.cuda.health import PROBE, probe_frame
from cuda_harness.tools.execute.cuda.lock import Claim, Held, claim, device_lock
from cuda_harness.tools.execute.cuda.memory import GUARD, planned_bytes
from cuda_harness.tools.execute.cuda.pool import SPARES, NotStarted, Pool
from cuda_harness.tools.execute.cuda.wire import job_frame, job_result
from cuda_harness.tools.execute.cuda.worker import (
    CHILD_MODULE,
    Command,
    Frame,
    Request,
    child_command,
    child_environment,
)
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.execute.protocol import (
    DeviceFacts,
    Job,
    JobFault,
    JobNotRun,
    JobResult,
    LaunchOp,
    Mode,
)
from cuda_harness.tools.frames import Blob, write_frame
from cuda_harness.tools.toolchain.nvrtc import Compiler


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
    runs_ahead = True
    """It may be asked from another thread while the CPU checks, and ends a job at once when its `over` is set."""

    def __init__(
        self, device: int, *, cache: Path | None = None, cancel: threading.Event | None = None,
        environment: Mapping[str, str] | None = None, command: Command | None = None, compiler: Compiler | None = None,
        claimed: Claim | None = None, lock_s: float = LOCK_S, spares: int = SPARES,
    ) -> None:  # fmt: skip
        self.name = f"cuda:{device}"
        self._device, self._environment = device, dict(environment or {})
        self._claim = claimed
        self._compiler = compiler or Compiler(cache=cache)
        self._cancel = cancel or threading.Event()
        self._pool = Pool(
            command or child_command(device), environment=environment, cancel=self._cancel, spares=spares
        )
        weakref.finalize(self, self._pool.close)  # one that nobody closes leaves no process either
        self._facts: dict[str, Any] | None = None
        self._lock = threading.Lock()
        self._resident: dict[tuple[str, str, int, int], int | None] = {}
        self._dispatch = Dispatch(
            self.name, self._pool, probe=self._probe, cancel=self._cancel, lock_s=lock_s
        )
        self._pool.prepare()

    @property
    def gpu_seconds(self) -> float:
        """Seconds in which children of this executor held the device for a job, waiting and starting left out."""
        return self._dispatch.gpu_seconds

    @property
    def waited_s(self) -> float:
        """Seconds in which jobs waited for the GPU's lock."""
        return self._dispatch.waited_s

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
        if job.over is not None and job.over.is_set():
            return NOT_WANTED
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
        answered = self.ask(
            header, blobs, deadline_s=job.deadline_s, max_bytes=most, key=shared, over=job.over
        )
        # Contexts of waiting children hold memory: without them the buffers may fit.
        if isinstance(answered, tuple) and _lacks_memory(answered[0]) and self._pool.trim():
            answered = self.ask(
                header, blobs, deadline_s=job.deadline_s, max_bytes=most, key=shared, over=job.over
            )
        if isinstance(answered, JobFault | JobNotRun):
            return answered
        return job_result(job, *answered)

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

        Run it while holding `shared()`: the program itself takes no lock.
        It exits with 0 (ok), 1 (the candidate's fault) or 2 (not run), and leaves its answer's frame in `answer`.
        """
        argv = [sys.executable, "-P", "-m", CHILD_MODULE, "--once", str(path), "--device", str(self._device)]
        return [*argv, "--answer", str(answer)] if answer is not None else argv

    def shared(self) -> AbstractContextManager[Held]:
        """Return the GPU's lock for programs behind `once_command`, shared with other checks; LockTimeout on entering."""
        return device_lock(self.facts()["uuid"], exclusive=False, timeout_s=LOCK_S)

    def once_environment(self) -> dict[str, str]:
        """Return the environment for `once_command`."""
        return child_environment(self._environment)

    def ask(
        self, header: dict[str, Any], blobs: Sequence[Blob], *, deadline_s: float, max_bytes: int, key: str | None = None,
        exclusive: bool | None = None, over: threading.Event | None = None,
    ) -> Frame | JobFault | JobNotRun:  # fmt: skip
        """Send one job to a child and return its answer; a hang or a death becomes a result.

        Args:
            header: The job; `do` says which.
            blobs: Its binary parts.
            deadline_s: Wall seconds from the moment the child has the GPU's lock; then its process group is killed.
            max_bytes: Bound on the bytes of the answer.
            key: Candidate whose child may be used again; `None`: a process of its own.
            exclusive: Whether nobody else may use the GPU meanwhile; `None`: all but plain runs.
            over: When set nobody waits any more, and the child is ended.
        """
        return self._dispatch.ask(
            header, blobs, deadline_s=deadline_s, max_bytes=max_bytes, key=key, exclusive=exclusive, over=over
        )

    def _probe(self) -> Request | None:
        """Return the job that runs a tiny kernel, `None` where it does not compile: jobs will tell."""
        compiled = self.compile(
            PROBE, arch=self.facts()["arch"], macros={}, fast_math=False, max_registers=None
        )
        if not isinstance(compiled, CompileOk):
            return None
        return probe_frame(Path(compiled.cubin_path).read_bytes())

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


def _not_compiled(compiled: CompileResult) -> JobResult:
    if isinstance(compiled, CompileRejected):
        return JobFault("compile", compiled.log[:2000])
    if isinstance(compiled, CompileTimedOut):
        return JobFault("compile", f"the compiler did not end within {compiled.seconds:.0f} s")
    if isinstance(compiled, CompileOk):
        msg = "a cubin was made"
        raise TypeError(msg)
    return JobNotRun("environment", compiled.message, compiled.remedy)
