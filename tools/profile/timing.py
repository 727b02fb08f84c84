"""Times of whole plans on a GPU: candidates take turns, contents change, outputs of timed calls come back."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.errors import ProfilerUnavailable
from cuda_harness.state.results import CompileOk
from cuda_harness.tools.execute.cuda.executor import CudaExecutor
from cuda_harness.tools.execute.cuda.wire import encode_op
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.execute.protocol import JobFault, JobNotRun, Program
from cuda_harness.tools.profile.floor import Ceilings
from cuda_harness.tools.profile.stats import Interval, median_interval

Array = NDArray[Any]


@dataclass(frozen=True)
class Contender:
    """One candidate at one set of sizes."""

    name: str
    source: str
    program: Program
    fast_math: bool = False
    max_registers: int | None = None


@dataclass(frozen=True)
class Timed:
    """What one candidate took, and what some of its timed calls wrote."""

    name: str
    samples_us: tuple[float, ...]
    median: Interval
    outputs: tuple[tuple[int, dict[str, Array]], ...]
    """Content set and outputs of randomly chosen timed calls, to be compared by the caller."""


@dataclass(frozen=True)
class Session:
    """One interleaved measurement."""

    timed: tuple[Timed, ...]
    clocks: tuple[dict[str, Any], ...]
    seconds: float


def measure(
    executor: CudaExecutor,
    contenders: Sequence[Contender],
    contents: Sequence[dict[str, Array]],
    *,
    arch: str,
    seed: int,
    precision: float = 0.005,
    least: int = 30,
    most: int = 400,
    limit_s: float = 20.0,
    cold: bool = True,
) -> Session | JobFault | JobNotRun:
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
        cold: Overwrite L2 before each call; false: warm times.

    Raises:
        ProfilerUnavailable: If a contender does not compile here; it was verified before.
    """
    programs, cubins = [], []
    for c in contenders:
        done = executor.compile(
            c.source,
            arch=arch,
            macros=dict(c.program.macros),
            fast_math=c.fast_math,
            max_registers=c.max_registers,
        )
        if not isinstance(done, CompileOk):
            msg = f"{c.name!r} does not compile for {arch}: {done.status}"
            raise ProfilerUnavailable(msg)
        cubins.append(Path(done.cubin_path).read_bytes())
        programs.append(
            {
                "buffers": [asdict(b) for b in c.program.buffers],
                "ops": [encode_op(op) for op in c.program.ops],
                "inputs": [b.name for b in c.program.buffers if b.role in {"in", "inout"}],
                "poison": seed % 1_000_003,
                "own_allocations": False,
            }
        )
    names: list[str] = programs[0]["inputs"]  # type: ignore[assignment]
    blobs = [*cubins, *(np.ascontiguousarray(content[n]).tobytes() for content in contents for n in names)]
    header = {
        "do": "time", "programs": programs, "sets": len(contents), "seed": seed, "precision": precision, "least": least,
        "most": most, "limit_s": limit_s, "cold": cold,
    }  # fmt: skip
    answered = executor.ask(header, blobs, deadline_s=limit_s + 120.0, max_bytes=8 << 30)
    if isinstance(answered, JobFault | JobNotRun):
        return answered
    reply, data = answered
    if reply["status"] == "fault":
        return JobFault(reply["fault"], reply["message"], reply.get("evidence", {}))
    if reply["status"] != "ok":
        return JobNotRun(reply["reason"], reply["message"])
    timed, at = [], 0
    for index, c in enumerate(contenders):
        outputs = []
        for checked in reply["checked"][index]:
            arrays = {}
            for b in c.program.buffers:
                if b.role in {"out", "inout"}:
                    arrays[b.name] = np.frombuffer(data[at], dtype=np_dtype(b.dtype)).copy()
                    at += 1
            outputs.append((int(checked["set"]), arrays))
        samples = tuple(float(s) for s in reply["samples_us"][index])
        timed.append(Timed(c.name, samples, median_interval(samples, seed=seed), tuple(outputs)))
    return Session(tuple(timed), tuple(reply["clocks"]), float(reply["seconds"]))


def ceilings(executor: CudaExecutor) -> Ceilings | JobFault | JobNotRun:
    """Return measured copy bandwidth (read plus write) and launch latency of the device."""
    answered = executor.ask({"do": "ceilings"}, [], deadline_s=60.0, max_bytes=1 << 20)
    if isinstance(answered, JobFault | JobNotRun):
        return answered
    reply = answered[0]
    return Ceilings(float(reply["bandwidth_bytes_per_s"]), float(reply["launch_us"]))
