"""What every executor takes and gives: one job, one contained child, one result.

A `Program` is a launch plan made concrete by `tools.ir.program.expand`: sizes, arguments and tunables are
numbers, loops over plan variables are unrolled, and only `while` is left to the executor.
"""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from numpy.typing import NDArray

from cuda_harness.state.results import CandidateFault

Array = NDArray[Any]


@dataclass(frozen=True)
class Buffer:
    """One device buffer: 256-byte aligned, guard bytes on both sides, poisoned unless it is an input."""

    name: str
    dtype: str
    """IR element type."""
    count: int
    """Elements; may be 0."""
    role: Literal["in", "out", "inout", "scratch"]


@dataclass(frozen=True)
class PointerArg:
    """The address of a buffer."""

    buffer: str


@dataclass(frozen=True)
class ValueArg:
    """A number passed by value, already checked against the range of the parameter's C type."""

    dtype: str
    value: int | float | bool


@dataclass(frozen=True)
class TensorMapValue:
    """A TMA descriptor (GPU only); strides are dense row-major."""

    buffer: str
    dtype: str
    shape: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: str
    l2: str
    oob: str


Arg = PointerArg | ValueArg | TensorMapValue


@dataclass(frozen=True)
class LaunchOp:
    """One launch with every number known; grid and block always have three axes, none of them zero."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    args: tuple[Arg, ...]
    cooperative: bool = False
    cluster: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class FillOp:
    """Set all elements of a buffer to `value`, already encoded in the buffer's dtype (little endian)."""

    buffer: str
    pattern: bytes


@dataclass(frozen=True)
class CopyOp:
    """Copy all bytes of one buffer onto another of the same size."""

    destination: str
    source: str


@dataclass(frozen=True)
class SymbolOp:
    """Copy a buffer onto an `extern "C" __constant__` (or `__device__`) array of at least its size."""

    symbol: str
    source: str


@dataclass(frozen=True)
class WhileOp:
    """Run `body` until the first element of `flag` is zero, at most `limit` times; tested before each pass."""

    flag: str
    limit: int
    body: tuple["Op", ...]


Op = LaunchOp | FillOp | CopyOp | SymbolOp | WhileOp


@dataclass(frozen=True)
class Program:
    """A plan for one set of sizes, tunables and scalars."""

    buffers: tuple[Buffer, ...]
    ops: tuple[Op, ...]
    macros: tuple[tuple[str, int], ...] = ()
    """Tunables and defines, `#define`d before kernel.cu; part of the compile key."""


Mode = Literal["plain", "check"]


def launched(ops: Iterable[Op]) -> Iterator[LaunchOp]:
    """Yield a program's launches in order; those of a loop over a flag once."""
    for op in ops:
        if isinstance(op, LaunchOp):
            yield op
        elif isinstance(op, WhileOp):
            yield from launched(op.body)


ORDERS = 3
"""A poison's remainder by this is the order in which a CPU executor starts blocks and threads."""
FORWARD, BACKWARD, MIXED = range(ORDERS)


@dataclass(frozen=True)
class Job:
    """One kernel, one program, one or several calls in the same process.

    Each call gets its own input contents at the same addresses; outputs and scratch are poisoned before each.
    """

    source: str
    program: Program
    calls: tuple[dict[str, Array], ...]
    """Per call: the contents of every `in` and `inout` buffer, as flat or shaped arrays of the exact dtype."""
    mode: Mode = "plain"
    poison: int = 0
    """Seed of the poison bytes of outputs and scratch, of address offsets, and (CPU) of the order in which blocks and
    threads start. In check mode few blocks are resident together in mixed order, and threads that swap or exchange a
    word let the others go first, once."""
    fast_math: bool = False
    max_registers: int | None = None
    arch: str = "sm_90a"
    deadline_s: float = 20.0
    """Wall seconds for the whole child, enforced by the parent on its process group; CPU executors also limit CPU seconds."""
    memory_bytes: int = 8 << 30
    own_allocations: bool = False
    """GPU: each buffer its own allocation, for the sanitizer."""
    unpoisoned: bool = False
    """GPU: outputs and scratch are left as they are allocated, for initcheck, which poison would blind."""
    fresh_process: bool = False
    """A process that has served nobody, ended afterwards; else a candidate's jobs may share one."""
    count: bool = False
    """CPU, check mode: count memory traffic and return it as `JobOk.facts`; it takes about twice as long."""
    over: threading.Event | None = None
    """When set nobody waits for the job any more, and it is ended."""
    full_output: bool = True
    """False: return no arrays, only the checks (fault, guards, inputs kept)."""


@dataclass(frozen=True)
class CallOutput:
    """What one call left in the `out` and `inout` buffers."""

    arrays: dict[str, Array]
    """Flat arrays of the exact dtype (ml_dtypes for bfloat16 and fp8)."""
    unwritten: dict[str, int]
    """Per output: bytes that still hold the poison pattern (exact in check mode, a lower bound elsewhere)."""
    unwritten_at: dict[str, Array]
    """Per output: a flat boolean mask of the elements never written; absent where not known."""


@dataclass(frozen=True)
class Coverage:
    """Basic blocks of kernel.cu by line and column of their start, both from 1; copies that were inlined count as one."""

    places: frozenset[tuple[int, int]]
    """All that the compiler made."""
    reached: frozenset[tuple[int, int]]
    """Those that ran, in any call and thread."""


@dataclass(frozen=True)
class JobOk:
    """The child ran to its end; nothing was seen that is wrong in itself."""

    calls: tuple[CallOutput, ...]
    seconds: float
    """Seconds inside the kernels, all calls."""
    warnings: tuple[str, ...] = ()
    """Benign patterns worth a line: same-value writes, early return before a barrier, ..."""
    facts: dict[str, float] = field(default_factory=dict)
    """What the executor counted, of all calls and launches together, by name; empty where nothing was asked for.

    The CPU executor in check mode with `Job.count`:
    `global_load_bytes`, `global_store_bytes`: bytes that threads ask for, plain and volatile accesses, exact;
    `global_load_sectors`, `global_store_sectors`: 32-byte sectors that each warp's access touches, summed; bytes over
    32 times this is the fraction of the traffic that is used. Estimated: the first 8 blocks of a launch and the
    first 32 turns at each place in the program stand for the rest; caches are not modelled;
    `shared_load_bytes`, `shared_store_bytes`: the same for shared memory, exact;
    `shared_bank_conflicts`: passes beyond the first that warps need because lanes meet in a bank, estimated alike;
    `barriers`: block barriers, counted once a block; `atomics`: atomic operations of threads, on any memory;
    `threads`: threads run.
    """
    cpu_seconds: tuple[float, ...] = ()
    """Per call: processor seconds inside the kernels, all cores together, which other work on the machine hardly stretches;
    empty from a GPU."""
    coverage: Coverage | None = None
    """CPU executor in check mode: what ran of the kernel; `None` where it is not observed."""
    status: Literal["ok"] = "ok"


@dataclass(frozen=True)
class JobFault:
    """The candidate is wrong: a class of CONTRACT.md 5, one sentence, evidence."""

    fault: CandidateFault
    message: str
    """Names line, kernel, block, thread, buffer: what a model needs to mend it."""
    evidence: dict[str, Any] = field(default_factory=dict)
    status: Literal["fault"] = "fault"


@dataclass(frozen=True)
class JobNotRun:
    """Nothing was learnt about the candidate."""

    reason: Literal["unsupported", "resources", "environment"]
    message: str
    remedy: str = ""
    evidence: dict[str, Any] = field(default_factory=dict)
    status: Literal["not_run"] = "not_run"


JobResult = JobOk | JobFault | JobNotRun


@dataclass(frozen=True)
class DeviceFacts:
    """What expressions and launch checks need to know of the device that runs the plan."""

    name: str
    num_sms: int = 132
    max_threads_per_block: int = 1024
    max_block: tuple[int, int, int] = (1024, 1024, 64)
    max_grid: tuple[int, int, int] = (2**31 - 1, 65_535, 65_535)
    shared_bytes_optin: int = 227 * 1024
    registers_per_block: int = 65_536
    memory_bytes: int | None = None
    arch: str | None = None
    """Architecture to compile for, `sm_90a`; `None`: the executor runs any."""


class Executor(Protocol):
    """Runs jobs in contained children; raises only for its own failure (ToolchainError)."""

    name: str
    """`cpu`, `cuda:0`, ... as in the verdict."""
    modes: frozenset[Mode]

    def device(self) -> DeviceFacts:
        """Return the facts that launch checks and expressions use."""
        ...

    def run(self, job: Job) -> JobResult:
        """Run one job to its end, its fault or its deadline; leaves no process and no file behind."""
        ...

    def close(self) -> None:
        """End helper processes; idempotent."""
        ...
