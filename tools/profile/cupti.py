"""Hardware counters without Nsight Compute: asked of a GPU child, which counts through CUPTI."""

import time
from pathlib import Path

from cuda_harness.state.results import CompileOk
from cuda_harness.tools.execute.cuda.wire import job_frame
from cuda_harness.tools.execute.protocol import Job, JobFault, JobNotRun, launched
from cuda_harness.tools.profile.ceilings import READER, SOURCE
from cuda_harness.tools.profile.counters import (
    METRICS,
    MOST_LAUNCHES,
    NAMES,
    NO_CUBIN,
    NO_LAUNCH,
    Counters,
    NoCounters,
)
from cuda_harness.tools.profile.session import Clock

_ANSWER_BYTES = 1 << 20


def count(executor: Clock, job: Job, *, limit_s: float = 60.0) -> Counters | NoCounters:
    """Return the counters of one job's plan, which runs about a dozen times while nobody else uses the GPU.

    Args:
        executor: The GPU.
        job: The plan with the contents of one call.
        limit_s: Wall seconds; then the child is ended.
    """
    if not launched(job.program.ops):
        return NO_LAUNCH
    began = time.monotonic()
    compiled = executor.compile(
        job.source, arch=job.arch, macros=dict(job.program.macros), fast_math=job.fast_math, max_registers=job.max_registers
    )  # fmt: skip
    if not isinstance(compiled, CompileOk):
        return NO_CUBIN
    sweep = executor.compile(SOURCE, arch=job.arch, macros={}, fast_math=False, max_registers=None)
    if not isinstance(sweep, CompileOk):
        return NoCounters("the kernel that empties caches does not compile")
    header, blobs = job_frame(job, Path(compiled.cubin_path).read_bytes())
    asked = [m for m in METRICS.values() if not m.startswith("launch__")]
    header |= {"do": "count", "metrics": asked, "most": MOST_LAUNCHES, "sweep": READER}
    blobs.insert(1, Path(sweep.cubin_path).read_bytes())
    answered = executor.ask(header, [bytes(b) for b in blobs], deadline_s=limit_s, max_bytes=_ANSWER_BYTES)
    if isinstance(answered, JobFault | JobNotRun):
        return NoCounters(f"while CUPTI counted: {answered.message}")
    told = answered[0]
    if told.get("status") != "ok" or not told.get("counted"):
        why = told.get("why") or told.get("message") or "CUPTI counted no launch"
        return NoCounters(str(why))
    launches = tuple(
        (str(name), {NAMES[m]: float(v) for m, v in values.items() if m in NAMES})
        for name, values in told["counted"]
    )
    had = {m for _, values in told["counted"] for m in values}
    missing = tuple(m for m in METRICS.values() if m not in had)
    return Counters(launches, time.monotonic() - began, missing, rung="cupti")
