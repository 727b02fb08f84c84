"""The Profiler: times and explains verified kernels, and says what it could not measure; tools only, no model."""

from typing import TYPE_CHECKING

from langgraph.runtime import Runtime

from cuda_harness.agents.context import RunContext, Services
from cuda_harness.agents.judging import clock_of, suite_of, workload_of
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.errors import BudgetExhausted, ConfigError
from cuda_harness.state.harness import ProfilerView, StateUpdate, node
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import (
    Failure,
    LibraryTime,
    Outcome,
    Profile,
    Timing,
    TimingNotMeasured,
    Verdict,
)

if TYPE_CHECKING:
    from cuda_harness.tools.execute.protocol import Program
    from cuda_harness.tools.profile.session import Clock
    from cuda_harness.tools.profile.timing import Baseline

_LIBRARY_S = 120.0
_LIBRARIES = "libraries.json"
Measured = tuple[Timing | TimingNotMeasured, Profile]


@node
def profile_kernel(state: ProfilerView, runtime: Runtime[RunContext]) -> StateUpdate:
    """Return verified attempts with a time, or the reason for none, and a profile from what is known."""
    services = runtime.context.services(state.run_dir)
    waiting = [
        a for a in state.attempts.values() if a.status == "verified" and a.verdict is not None and a.timing is None
    ]  # fmt: skip
    changed = {}
    bench: _Bench | None = None
    for attempt in waiting:
        clock = _clock(services, attempt)
        if clock is not None and state.ir is not None:
            bench = bench or _Bench(services, state, clock)
            timing, profile = bench.measure(attempt)
        else:
            timing, profile = _unmeasured(services, attempt, state)
        profile = _explained(services, state, attempt, (timing, profile))
        folder = services.folder.attempt_dir(attempt.id)
        services.folder.write_json(f"{folder}/timing.json", timing.model_dump(mode="json"))
        services.folder.write_json(f"{folder}/profile.json", profile.model_dump(mode="json"))
        judged = convicted(attempt.verdict, timing)
        if judged is not attempt.verdict and judged is not None:
            services.folder.write_text(f"{folder}/verdict.json", judged.to_json())
        changed[attempt.id] = attempt.model_copy(
            update={"timing": timing, "profile": profile, "verdict": judged}
        )
        _tell(services, attempt, timing, profile)
    return {"attempts": changed}


def why_untimed(verdict: Verdict) -> str:
    """Return why there is no time."""
    if verdict.executor.partition(":")[0] == "cpu":
        return "the kernel ran on the CPU executor, whose time says nothing about a GPU"
    return f"executor {verdict.executor!r} does not time plans"


def baseline_of(attempts: dict[int, Attempt], attempt: Attempt) -> Attempt | None:
    """Return the first verified kernel of the run, `None` when that is `attempt` itself."""
    verified = [a for a in attempts.values() if a.status == "verified"]
    first = min(verified, key=lambda a: a.id, default=None)
    return first if first is not None and first.id != attempt.id and first.sha256 != attempt.sha256 else None


def convicted(verdict: Verdict | None, timing: Timing | TimingNotMeasured) -> Verdict | None:
    """Return the verdict, rejected at stage `target` when a timed call wrote a wrong result.

    The ladder ran at the same size and accepted it: such a kernel does its work only sometimes.
    """
    if verdict is None or isinstance(timing, Timing) or timing.fault is None:
        return verdict
    failure = Failure(stage="target", class_=timing.fault, message=timing.reason[:3_000])
    outcome: Outcome = "rejected" if failure.is_candidates else "undecided"
    stages = tuple(
        s.model_copy(update={"status": "failed", "detail": timing.reason[:600]}) if s.name == "target" else s
        for s in verdict.stages
    )
    return verdict.model_copy(update={"outcome": outcome, "failure": failure, "stages": stages})


def with_libraries(timing: Timing, ir: KernelIR, services: Services) -> Timing:
    """Return the time with what PyTorch needs for the same problem, or why that is not known.

    Measured once a run, when its kernels are decided: torch.compile takes a minute in which nothing else is timed.
    """
    from cuda_harness.tools.profile.library import NAME, torch_times

    folder, clock = services.folder, clock_of(services)
    if folder.exists(_LIBRARIES):
        kept = tuple(LibraryTime.model_validate(row) for row in folder.read_json(_LIBRARIES))
        return timing.model_copy(update={"libraries": kept})
    if not services.settings.libraries or clock is None:
        return timing
    left = services.ledger.seconds_left()
    if services.cancelled.is_set() or _is_spent(services) or (left is not None and left < 10):
        late = LibraryTime(name=NAME, reason="the run's time was over")
        return timing.model_copy(update={"libraries": (late,)})
    found = torch_times(
        workload_of(services, ir), suite_of(services, ir), clock, limit_s=min(_LIBRARY_S, left or _LIBRARY_S), seed=services.seed,
    )  # fmt: skip
    folder.write_json(_LIBRARIES, [x.model_dump(mode="json") for x in found])
    return timing.model_copy(update={"libraries": found})


def _is_spent(services: Services) -> bool:
    """Return whether the run's wall or GPU seconds are over."""
    try:
        services.ledger.require_time()
    except BudgetExhausted:
        return True
    return False


def _unmeasured(services: Services, attempt: Attempt, state: ProfilerView) -> Measured:
    from cuda_harness.tools.profile.diagnose import static_profile

    verdict = attempt.verdict
    if verdict is None:
        return TimingNotMeasured(reason="the kernel was not judged"), static_profile((), state.ir)
    program = _program_of(services, attempt, state)
    profile = static_profile(verdict.kernels, state.ir, program=program)
    return TimingNotMeasured(reason=why_untimed(verdict)), profile


def _program_of(services: Services, attempt: Attempt, state: ProfilerView) -> "Program | None":
    """Return what an attempt launches at the target, `None` where it cannot be told."""
    from cuda_harness.tools.ir.placement import at_target

    if state.ir is None:
        return None
    try:
        kernel = services.folder.load_kernel(attempt.id)
    except ConfigError:
        return None
    return at_target(kernel, state.ir, services.executor, arch=state.target or services.target)


def _explained(services: Services, state: ProfilerView, attempt: Attempt, known: Measured) -> Profile:
    """Return what registered profilers make of the profile; one that breaks is named in an event and costs nothing."""
    from cuda_harness.tools.plugins import PROFILERS, explained, registered

    timing, profile = known
    if attempt.verdict is None or not registered(PROFILERS):
        return profile
    kernel = services.folder.load_kernel(attempt.id)
    try:
        return explained(profile, kernel=kernel, ir=state.ir, verdict=attempt.verdict, timing=timing)
    except ConfigError as exc:
        services.emit("profiler_failed", attempt=attempt.id, message=exc.message[:500])
        return profile


def _clock(services: Services, attempt: Attempt) -> "Clock | None":
    """Return the executor of the verdict where it can time plans."""
    if attempt.verdict is None or attempt.verdict.executor.partition(":")[0] != "cuda":
        return None
    return clock_of(services)


class _Bench:
    """Times kernels of one run on its own contents."""

    def __init__(self, services: Services, state: ProfilerView, clock: "Clock") -> None:
        self.services, self.state, self.clock = services, state, clock
        self.arch = state.target or services.target

    def measure(self, attempt: Attempt) -> Measured:
        """Return time and profile; what cannot be measured says why, and costs the kernel nothing."""
        from cuda_harness.tools.profile.ceilings import Ceilings, ceilings
        from cuda_harness.tools.profile.explain import explain
        from cuda_harness.tools.profile.timing import time_kernel

        kernel = self.services.folder.load_kernel(attempt.id)
        ir = self.state.ir
        assert ir is not None  # noqa: S101 - the caller asked
        work = workload_of(self.services, ir)
        found = ceilings(self.clock)
        limits = found if isinstance(found, Ceilings) else None
        timing = time_kernel(
            kernel, work, self.clock, arch=self.arch, seed=self.services.seed + attempt.id, baseline=self._baseline(attempt), limits=limits
        )  # fmt: skip
        return timing, explain(kernel, work, self.clock, timing=timing, limits=limits, arch=self.arch)

    def _baseline(self, attempt: Attempt) -> "Baseline | None":
        from cuda_harness.tools.profile.timing import Baseline

        first = baseline_of(self.state.attempts, attempt)
        if first is None:
            return None
        return Baseline(
            f"attempt {first.id}, the first verified kernel", self.services.folder.load_kernel(first.id)
        )


def _tell(services: Services, attempt: Attempt, timing: Timing | TimingNotMeasured, profile: Profile) -> None:
    timed = timing if isinstance(timing, Timing) else None
    services.emit(
        "kernel_profiled",
        attempt=attempt.id,
        rung=profile.rung,
        bound=profile.bound,
        timing="measured" if timed else "not_measured",
        median_us=timed.median_us if timed else None,
        sol_fraction=timed.sol_fraction if timed else None,
        speedup_vs_baseline=timed.speedup_vs_baseline if timed else None,
        reason=None if timed else getattr(timing, "reason", ""),
    )
