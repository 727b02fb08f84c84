"""One interleaved measurement on a GPU: candidates take turns, contents change, outputs of timed calls come back."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.results import CompileOk, CompileResult
from cuda_harness.tools.execute.cuda.wire import encode_op
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.execute.protocol import Executor, JobFault, JobNotRun, Program
from cuda_harness.tools.profile.stats import Interval, median_interval

Array = NDArray[Any]
HOLD = """extern "C" __global__ void hold(long long nanoseconds) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (now - begin < (unsigned long long)nanoseconds);
}
"""
"""Keeps the device busy while the host queues a plan, so that the host's own time is not part of the plan's."""
_OVERHEAD_S = 60.0
_TRANSFER_BYTES_PER_S = 200e6
HELD_DOWN = 0x04 | 0x08 | 0x20 | 0x40 | 0x80
"""NVML clock event reasons that slow a kernel: power cap, slowdown and heat by software or hardware, power brake."""


class Clock(Executor, Protocol):
    """An executor that can time plans; `CudaExecutor` is one."""

    def facts(self) -> dict[str, Any]:
        """Return what the device says of itself."""
        ...

    def compile(
        self, source: str, *, arch: str, macros: dict[str, int], fast_math: bool, max_registers: int | None
    ) -> CompileResult:
        """Return the cubin of a kernel."""
        ...

    def ask(
        self, header: dict[str, Any], blobs: list[bytes], *, deadline_s: float, max_bytes: int
    ) -> tuple[dict[str, Any], list[bytes]] | JobFault | JobNotRun:
        """Send one job to a child."""
        ...


def as_clock(executor: Executor) -> Clock | None:
    """Return the executor as one that can time plans, `None` when it cannot."""
    if all(hasattr(executor, name) for name in ("ask", "facts", "compile")):
        return cast("Clock", executor)
    return None


@dataclass(frozen=True)
class Contender:
    """One candidate at one set of sizes."""

    name: str
    source: str
    program: Program
    fast_math: bool = False
    max_registers: int | None = None


@dataclass(frozen=True)
class Examined:
    """What one timed call wrote."""

    chosen: int
    """Content set of the call."""
    digest: str
    arrays: dict[str, Array] | None
    """`None` where the caller knows these outputs already, or they were too many bytes to send."""


@dataclass(frozen=True)
class Timed:
    """What one candidate took, and what some of its timed calls wrote."""

    name: str
    samples_us: tuple[float, ...]
    """Cold caches, one a round, in the order of the rounds."""
    median: Interval
    outputs: tuple[Examined, ...]
    """Of randomly chosen timed calls, to be compared by the caller."""
    unstable: bool = False
    """Whether two timed calls on the same contents left different bits."""
    warm_us: tuple[float, ...] = ()
    graph_us: tuple[float, ...] = ()
    graph_missing: str = ""
    """Why there are no graph replays; empty when there are, or none were asked for."""
    enqueue_us: float | None = None
    """Host time to queue the plan."""


@dataclass(frozen=True)
class Session:
    """One interleaved measurement."""

    timed: tuple[Timed, ...]
    clocks: tuple[dict[str, Any], ...]
    seconds: float
    others: int | None = None
    """Processes besides ours that had a context on the device; `None`: not known."""
    notes: tuple[str, ...] = field(default=())

    @property
    def throttled(self) -> bool | None:
        """Whether any reading shows the clock held down by heat or power; `None` without readings."""
        reasons = [c["reasons"] for c in self.clocks if "reasons" in c]
        return any(r & HELD_DOWN for r in reasons) if reasons else None

    def typical(self, name: str) -> float | None:
        """Return the median of a sensor's readings (`sm_mhz`, `temperature_c`, `power_w`), `None` without any."""
        found = [float(c[name]) for c in self.clocks if name in c]
        return float(np.median(found)) if found else None


def measure(
    executor: Clock, contenders: Sequence[Contender], contents: Sequence[dict[str, Array]], *, arch: str, seed: int,
    precision: float = 0.005, least: int = 30, most: int = 400, limit_s: float = 20.0, warm: int = 0, graph: int = 0,
    truths: Sequence[int] = (), outputs: bool = True, known: Iterable[tuple[int, str]] = (),
) -> Session | JobFault | JobNotRun:  # fmt: skip
    """Return the times of all contenders on the same contents, in microseconds.

    Args:
        executor: The GPU.
        contenders: Plans over buffers of the same names and sizes of inputs.
        contents: Input sets; each timed call gets a randomly chosen one, copied in before the events.
        arch: Architecture to compile for.
        seed: For order, contents and poison.
        precision: Wanted relative half width of the median's interval.
        least: Fewest rounds.
        most: Most rounds.
        limit_s: Wall seconds for the timed rounds.
        warm: Further calls with warm caches.
        graph: Further measurements by graph replay.
        truths: Content sets whose truth the caller knows: timed calls that are examined get one of these.
        outputs: Whether outputs of examined calls are wanted.
        known: Content sets and hashes of outputs that need not come back.

    """
    programs = [_encoded(c.program, seed) for c in contenders]
    cubins = []
    for c in (*contenders, Contender("the holding kernel", HOLD, Program((), ()))):
        made = _cubin(executor, c, arch)
        if isinstance(made, JobNotRun):
            return made
        cubins.append(made)
    names: list[str] = programs[0]["inputs"]
    blobs = [
        *cubins,
        *(np.ascontiguousarray(content[n]).tobytes() for content in contents for n in names),
    ]  # fmt: skip
    header = {
        "do": "time", "programs": programs, "sets": len(contents), "seed": seed, "precision": precision, "least": least,
        "most": most, "limit_s": limit_s, "hold": True, "warm": warm, "graph": graph, "truths": list(truths),
        "outputs": outputs, "known": [list(k) for k in known],
    }  # fmt: skip
    deadline_s = limit_s + _OVERHEAD_S + sum(map(len, blobs)) / _TRANSFER_BYTES_PER_S
    answered = executor.ask(header, blobs, deadline_s=deadline_s, max_bytes=8 << 30)
    if isinstance(answered, JobFault | JobNotRun):
        return answered
    reply, data = answered
    if reply["status"] == "fault":
        return JobFault(reply["fault"], reply["message"], reply.get("evidence", {}))
    if reply["status"] != "ok":
        return JobNotRun(reply["reason"], reply["message"], reply.get("remedy", ""))
    return read_session(reply, data, contenders, seed=seed)


def read_session(
    reply: dict[str, Any], data: Sequence[bytes], contenders: Sequence[Contender], *, seed: int
) -> Session:
    """Return a child's answer as a session; `data` holds the outputs of examined calls, contender by contender."""
    sent = _sent(reply, data, contenders)
    timed = []
    for index, c in enumerate(contenders):
        keys = [(int(x["set"]), str(x["digest"])) for x in reply["checked"][index]]
        outputs = [Examined(*key, sent.get(key)) for key in dict.fromkeys(keys)]
        digests = set(keys)
        samples = tuple(float(s) for s in reply["samples_us"][index])
        timed.append(
            Timed(
                c.name, samples, median_interval(samples, seed=seed), tuple(outputs),
                unstable=len({s for s, _ in digests}) < len(digests),
                warm_us=_series(reply, "warm_us", index), graph_us=_series(reply, "graph_us", index),
                graph_missing=str((reply.get("graph_missing") or [""] * len(contenders))[index]),
                enqueue_us=float(reply["enqueue_us"][index]) if "enqueue_us" in reply else None,
            )
        )  # fmt: skip
    others = reply.get("others")
    return Session(
        tuple(timed), tuple(reply["clocks"]), float(reply["seconds"]), others=len(others) if others is not None else None,
    )  # fmt: skip


def _sent(
    reply: dict[str, Any], data: Sequence[bytes], contenders: Sequence[Contender]
) -> dict[tuple[int, str], dict[str, Array]]:
    """Return the outputs that came back, by content set and hash; lanes with equal outputs sent them once."""
    found: dict[tuple[int, str], dict[str, Array]] = {}
    at = 0
    for index, c in enumerate(contenders):
        for checked in reply["checked"][index]:
            if not checked["sent"]:
                continue
            arrays = {}
            for b in c.program.buffers:
                if b.role in {"out", "inout"}:
                    arrays[b.name] = np.frombuffer(data[at], dtype=np_dtype(b.dtype)).copy()
                    at += 1
            found[int(checked["set"]), str(checked["digest"])] = arrays
    return found


def _series(reply: dict[str, Any], name: str, index: int) -> tuple[float, ...]:
    return tuple(float(s) for s in reply[name][index]) if name in reply else ()


def _encoded(program: Program, seed: int) -> dict[str, Any]:
    return {
        "buffers": [asdict(b) for b in program.buffers],
        "ops": [encode_op(op) for op in program.ops],
        "inputs": [b.name for b in program.buffers if b.role in {"in", "inout"}],
        "poison": seed % 1_000_003,
        "own_allocations": False,
    }


def _cubin(executor: Clock, c: Contender, arch: str) -> bytes | JobNotRun:
    """Return compiled code; a verified kernel that does not compile here says something about the machine only."""
    done = executor.compile(
        c.source,
        arch=arch,
        macros=dict(c.program.macros),
        fast_math=c.fast_math,
        max_registers=c.max_registers,
    )
    if isinstance(done, CompileOk):
        return Path(done.cubin_path).read_bytes()
    told = getattr(done, "message", "") or getattr(done, "log", "")
    return JobNotRun("environment", f"{c.name!r} does not compile for {arch}: {done.status}: {told[:300]}")
