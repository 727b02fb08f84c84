"""The profile of a timed kernel: counters where they are allowed, else what the compiler and the clock tell."""

import time

from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import CompileOk, Profile, Timing, TimingNotMeasured
from cuda_harness.tools.execute.cuda.lock import LockTimeout, device_lock
from cuda_harness.tools.execute.protocol import Job
from cuda_harness.tools.ir.program import PlanFault
from cuda_harness.tools.profile import cupti
from cuda_harness.tools.profile.ceilings import Ceilings
from cuda_harness.tools.profile.counters import Counters, NoCounters, count, find_ncu
from cuda_harness.tools.profile.diagnose import Known, profile_of
from cuda_harness.tools.profile.session import Clock
from cuda_harness.tools.profile.workload import Workload

_LOCK_S = 60.0
_LEAST_S = 3.0
"""Wall seconds below which CUPTI is not tried."""


def explain(
    kernel: Kernel, work: Workload, executor: Clock, *, timing: Timing | TimingNotMeasured | None, limits: Ceilings | None,
    arch: str | None = None, counters: bool = True, limit_s: float = 45.0,
) -> Profile:  # fmt: skip
    """Return what bounds a verified kernel at the workload's sizes.

    Args:
        kernel: Verified before.
        work: Contents at the sizes that were timed.
        executor: The GPU.
        timing: Its time, if there is one.
        limits: The device's ceilings, if known.
        arch: Architecture; `None`: the device's own.
        counters: Whether ncu or CUPTI may be used.
        limit_s: Wall seconds for them.
    """
    facts = executor.facts()
    target = arch or str(facts["arch"])
    made = work.contender("kernel", kernel, executor, arch=target)
    known = Known(
        work.ir,
        timing=timing if isinstance(timing, Timing) else None,
        limits=limits,
        num_sms=int(facts["num_sms"]),
    )
    if isinstance(made, PlanFault):
        return profile_of(Known(work.ir, reason=f"the plan does not expand: {made.message[:200]}"))
    done = executor.compile(
        made.source, arch=target, macros=dict(made.program.macros), fast_math=made.fast_math, max_registers=made.max_registers
    )  # fmt: skip
    compiled = done if isinstance(done, CompileOk) else None
    counted, reason = None, "counters were not asked for"
    if counters:
        job = Job(
            made.source, made.program, (work.contents[0],), fast_math=made.fast_math, max_registers=made.max_registers, arch=target,
            full_output=False,
        )  # fmt: skip
        counted, reason = _count(executor, job, str(facts["uuid"]), limit_s)
    return profile_of(
        Known(
            work.ir, kernels=compiled.kernels if compiled else (), mixes=compiled.mixes if compiled else (), program=made.program,
            timing=known.timing, limits=limits, counters=counted,
            reason=reason, num_sms=known.num_sms,
        )
    )  # fmt: skip


def _count(executor: Clock, job: Job, uuid: str, limit_s: float) -> tuple[Counters | None, str]:
    """Return counters of ncu, else of CUPTI, and why those of ncu or any are missing."""
    by_ncu, left = _by_ncu(executor, job, uuid, limit_s)
    if isinstance(by_ncu, Counters):
        return by_ncu, ""
    if by_ncu.is_final or left < _LEAST_S:
        return None, by_ncu.reason
    by_cupti = cupti.count(executor, job, limit_s=left)
    if isinstance(by_cupti, Counters):
        return by_cupti, by_ncu.reason
    return None, f"{by_ncu.reason}; {by_cupti.reason}"


def _by_ncu(executor: Clock, job: Job, uuid: str, limit_s: float) -> tuple[Counters | NoCounters, float]:
    """Return what ncu counts while nobody times on the device, and the seconds that are left of the limit."""
    program = find_ncu(executor)
    if isinstance(program, NoCounters):
        return program, limit_s
    try:
        with device_lock(uuid, exclusive=False, timeout_s=_LOCK_S):
            began = time.monotonic()
            found = count(executor, job, limit_s=limit_s, program=program)
            return found, limit_s - (time.monotonic() - began)
    except LockTimeout as exc:
        return NoCounters(str(exc)), limit_s
