"""Two kernels told apart, or not: timed in turns in one process, judged by rounds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import TimingNotMeasured
from cuda_harness.state.suite import Inputs
from cuda_harness.tools.execute.protocol import Executor
from cuda_harness.tools.profile.session import Session, as_clock
from cuda_harness.tools.profile.stats import paired_p_value, paired_ratio_interval
from cuda_harness.tools.profile.timing import run_session
from cuda_harness.tools.profile.workload import Workload, workload
from cuda_harness.tools.synthesize.suite import Suite

LEVEL = 0.01
"""Equal kernels are told apart in about one comparison of a hundred."""
SMALLEST = 0.005
"""Differences below half a percent are none: addresses and clocks make such."""


@dataclass(frozen=True)
class Comparison:
    """`ratio` is time of a over time of b: above 1, b is faster."""

    ratio: float
    ci95: tuple[float, float]
    significant: bool
    samples: int
    """Rounds; each timed both kernels once, in random order."""
    a_us: float
    b_us: float
    p_value: float
    notes: tuple[str, ...] = ()

    @property
    def faster(self) -> str | None:
        """`a` or `b`, `None` when they cannot be told apart."""
        if not self.significant:
            return None
        return "b" if self.ratio > 1 else "a"


def compare(
    a: Kernel, b: Kernel, ir: KernelIR, executor: Executor, *, suite: Suite | None = None, specs: Inputs | None = None,
    work: Workload | None = None, arch: str | None = None, seed: int = 0, limit_s: float = 8.0, precision: float = 0.003,
) -> Comparison | TimingNotMeasured:  # fmt: skip
    """Return how two verified kernels of one IR compare at the target size.

    Args:
        a: The base.
        b: The challenger.
        ir: What both compute.
        executor: The GPU.
        suite: Data and truths; timed calls are held against them.
        specs: How inputs are drawn when there is no suite.
        work: Contents made before, instead of `suite` or `specs`; saves drawing them again.
        arch: Architecture; `None`: the device's own.
        seed: For order, contents and poison.
        limit_s: Wall seconds for the timed rounds.
        precision: Wanted relative half width of each median's interval.
    """
    clock = as_clock(executor)
    if clock is None:
        return TimingNotMeasured(reason=f"executor {executor.name!r} does not time plans")
    made = work if work is not None else workload(ir, suite=suite, specs=specs)
    session = run_session(
        [("a", a), ("b", b)], made, clock, arch=arch, seed=seed, limit_s=limit_s, precision=precision
    )
    if isinstance(session, TimingNotMeasured):
        return session
    for timed in session.timed:
        wrong = made.wrong(timed)
        if wrong is not None:
            return TimingNotMeasured(reason=wrong.message, rejected=True, fault=wrong.fault)
    return judge_session(session)


def judge_session(session: Session) -> Comparison:
    """Return what the rounds of two contenders say."""
    notes = []
    if session.throttled:
        notes.append("the clock was held down by heat or power, also when it was repeated")
    if session.others:
        notes.append(f"{session.others} other process(es) had a context on the device")
    return judge_samples(session.timed[0].samples_us, session.timed[1].samples_us, notes=tuple(notes))


def judge_samples(a_us: Sequence[float], b_us: Sequence[float], *, notes: tuple[str, ...] = ()) -> Comparison:
    """Return what paired samples say: the interval must clear 1, the rounds must agree, the gain must be worth a name."""
    interval = paired_ratio_interval(a_us, b_us)
    p_value = paired_p_value(a_us, b_us)
    cleared = interval.low > 1.0 or interval.high < 1.0
    large = abs(interval.value - 1.0) >= SMALLEST
    return Comparison(
        ratio=interval.value, ci95=(interval.low, interval.high), significant=cleared and large and p_value < LEVEL,
        samples=len(a_us), a_us=float(np.median(a_us)), b_us=float(np.median(b_us)), p_value=p_value, notes=notes,
    )  # fmt: skip
