"""How long a verified kernel takes on a GPU, by the whole protocol, or the reason why that is not known."""

from dataclasses import dataclass
from typing import Any

from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import Timing, TimingNotMeasured
from cuda_harness.tools.execute.protocol import JobFault, JobNotRun
from cuda_harness.tools.ir.program import PlanFault
from cuda_harness.tools.profile.ceilings import Ceilings, ceilings
from cuda_harness.tools.profile.floor import floor
from cuda_harness.tools.profile.session import Clock, Contender, Session, Timed, measure
from cuda_harness.tools.profile.stats import median_interval, paired_ratio_interval
from cuda_harness.tools.profile.workload import Workload

__all__ = [
    "Baseline", "Contender", "Session", "Timed", "ceilings", "measure", "run_session", "time_kernel", "timing_of",
]  # fmt: skip

LAUNCH_BOUND_US = 50.0
"""Plans quicker than this, or of several launches, are replayed from a graph as well."""
HELD_US = 2_600.0
"""Plans that the host queues within this time are held back until they are queued."""
_WARM_ROUNDS = 20
_GRAPH_ROUNDS = 15
_CLOSED = "the clock was held down by heat or power while it was timed"


@dataclass(frozen=True)
class Baseline:
    """What a kernel is compared with, in turns, in the same process."""

    name: str
    kernel: Kernel


def time_kernel(
    kernel: Kernel, work: Workload, executor: Clock, *, arch: str | None = None, seed: int = 0, baseline: Baseline | None = None,
    limits: Ceilings | None = None, limit_s: float = 8.0, precision: float = 0.005,
) -> Timing | TimingNotMeasured:  # fmt: skip
    """Return the time of a verified kernel at the workload's sizes.

    A time below what the device can do, and a timed call with a wrong result, are rejected: no record comes of it.

    Args:
        kernel: Verified before.
        work: Contents and truths.
        executor: The GPU.
        arch: Architecture; `None`: the device's own.
        seed: For order, contents and poison.
        baseline: Timed in turns with it; must be verified as well.
        limits: The device's ceilings; `None`: kept or measured now.
        limit_s: Wall seconds for the timed rounds.
        precision: Wanted relative half width of the 95 % interval.
    """
    given = [("the kernel", kernel)] + ([(baseline.name, baseline.kernel)] if baseline else [])
    session = run_session(
        given, work, executor, arch=arch, seed=seed, limit_s=limit_s, precision=precision, extras=True
    )
    if isinstance(session, TimingNotMeasured):
        return session
    if limits is None:
        found = ceilings(executor)
        limits = found if isinstance(found, Ceilings) else None
    return timing_of(session, work, executor, limits=limits, baseline=baseline, precision=precision)


def run_session(
    given: list[tuple[str, Kernel]], work: Workload, executor: Clock, *, arch: str | None = None, seed: int = 0,
    limit_s: float = 8.0, precision: float = 0.005, extras: bool = False, least: int = 30, most: int = 400,
) -> Session | TimingNotMeasured:  # fmt: skip
    """Return one interleaved measurement of kernels on a workload, repeated once when the clock was held down."""
    target = arch or str(executor.facts()["arch"])
    contenders = []
    for name, kernel in given:
        made = work.contender(name, kernel, executor, arch=target)
        if isinstance(made, PlanFault):
            return TimingNotMeasured(reason=f"the plan of {name} does not expand: {made.message}")
        contenders.append(made)
    quick = max((len(c.program.ops) for c in contenders), default=1) > 1 or _is_small(work)
    options: dict[str, Any] = {
        "arch": target, "seed": seed, "limit_s": limit_s, "precision": precision,
        "least": least, "most": most,
    }  # fmt: skip
    session: Session | JobFault | JobNotRun | None = None
    for attempt in range(2):
        session = measure(
            executor, contenders, work.contents, truths=sorted(work.answers), known=sorted(work.right), warm=_WARM_ROUNDS if extras else 0,
            graph=_GRAPH_ROUNDS if extras and quick else 0, outputs=bool(work.answers), **{**options, "seed": seed + attempt},
        )  # fmt: skip
        if not isinstance(session, Session):
            return TimingNotMeasured(reason=f"{_kind(session)} while it was timed: {session.message}")
        if not session.throttled:
            break
    assert session is not None and not isinstance(session, JobFault | JobNotRun)  # noqa: S101, PT018 - the loop ran
    return session


def timing_of(
    session: Session,
    work: Workload,
    executor: Clock,
    *,
    limits: Ceilings | None,
    baseline: Baseline | None = None,
    precision: float | None = None,
) -> Timing | TimingNotMeasured:
    """Return what a session says of its first contender, the second being the baseline."""
    timed = session.timed[0]
    wrong = work.wrong(timed)
    if wrong is not None:
        return TimingNotMeasured(reason=wrong.message, rejected=True, fault=wrong.fault)
    median = timed.median
    facts = executor.facts()
    notes = list(_notes(session, timed, work))
    fields: dict[str, Any] = {}
    if precision is not None and median.relative_half_width > precision:
        notes.append(
            f"the interval is +-{median.relative_half_width:.1%} wide, +-{precision:.1%} was wanted: a limit came first"
        )
    if limits is not None:
        bound = floor(work.ir, work.dims, limits)
        impossible = bound.impossible(median.value)
        if impossible is not None:
            return TimingNotMeasured(reason=impossible, rejected=True)
        notes += bound.doubts(median.value)
        floor_us, floor_of = bound.reached(median.value)
        fields = {
            "floor_us": floor_us, "floor_of": floor_of, "sol_fraction": min(1.0, floor_us / median.value),
            "compulsory_bytes": bound.compulsory_bytes, "flops": bound.flops,
            "gb_s": bound.compulsory_bytes / median.value / 1e3 or None,
            "gflop_s": bound.flops / median.value / 1e3 if bound.flops else None,
        }  # fmt: skip
    else:
        notes.append("no floor: the device's ceilings could not be measured")
    if baseline is not None and len(session.timed) > 1:
        doubt = work.wrong(session.timed[1])
        if doubt is not None:
            notes.append(f"no speed-up over {baseline.name}: {doubt.message[:200]}")
        else:
            gain = paired_ratio_interval(session.timed[1].samples_us, timed.samples_us)
            fields |= {
                "baseline": baseline.name, "baseline_sha256": baseline.kernel.sha256, "speedup_vs_baseline": gain.value,
                "speedup_ci95": (gain.low, gain.high),
            }  # fmt: skip
    return Timing(
        median_us=median.value, ci95_us=(median.low, median.high), samples=len(timed.samples_us), device=str(facts["name"]),
        uuid=str(facts["uuid"]), clock_mhz=session.typical("sm_mhz"), temperature_c=session.typical("temperature_c"),
        power_w=session.typical("power_w"), throttled=session.throttled,
        contended=session.others > 0 if session.others is not None else None, precision=median.relative_half_width,
        warm_us=median_interval(timed.warm_us).value if timed.warm_us else None,
        graph_us=median_interval(timed.graph_us).value if timed.graph_us else None, notes=tuple(notes), **fields,
    )  # fmt: skip


def _notes(session: Session, timed: Timed, work: Workload) -> list[str]:
    notes = []
    if session.throttled:
        notes.append(f"{_CLOSED}, twice" if session.clocks else _CLOSED)
    if session.others:
        notes.append(f"{session.others} other process(es) had a context on the device")
    if work.answers and not work.compared(timed):
        notes.append("no timed call was compared with the reference: the outputs were too large to send")
    if timed.unstable:
        notes.append("two timed calls on the same contents left different bits")
    if timed.graph_missing:
        notes.append(f"no graph replay: {timed.graph_missing}")
    if work.why_no_truth:
        notes.append(f"outputs of timed calls were not compared with a reference: {work.why_no_truth}")
    if timed.enqueue_us is not None and timed.enqueue_us > max(timed.median.value, HELD_US):
        notes.append(
            f"the host needs {timed.enqueue_us:.0f} us to queue the plan, longer than it runs: its own time is part of this"
        )
    return notes


def _is_small(work: Workload) -> bool:
    from cuda_harness.tools.profile.floor import compulsory_bytes

    return compulsory_bytes(work.ir, work.dims) < 64 << 20


def _kind(done: JobFault | JobNotRun) -> str:
    return f"a fault ({done.fault})" if isinstance(done, JobFault) else f"not run ({done.reason})"
