"""`profile`: a bundle verified, then timed and explained, alone or against a second one."""

import contextlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import (
    Against,
    LibraryTime,
    ProfileReport,
    StageResult,
    Timing,
    TimingNotMeasured,
    Verdict,
)
from cuda_harness.state.settings import Settings

if TYPE_CHECKING:
    from cuda_harness.state.kernel import Kernel
    from cuda_harness.tools.profile.ceilings import Ceilings
    from cuda_harness.tools.profile.session import Clock
    from cuda_harness.tools.profile.workload import Workload
    from cuda_harness.tools.verify.bundle import Bundle

REMEDY = "run it on a machine with an NVIDIA GPU, with --executor cuda or cuda:N"


@dataclass(frozen=True)
class Options:
    """What the user asked for beyond the bundle."""

    against: Path | None = None
    tune: bool = False
    counters: bool = True
    libraries: bool = True
    max_seconds: float | None = None


def profile_bundle(
    bundle: Path, settings: Settings, options: Options, *, on_stage: Callable[[StageResult], None] | None = None
) -> ProfileReport:  # fmt: skip
    """Return verdict, time and profile of a bundle; without a GPU the verdict alone, with the reason.

    Raises:
        ConfigError: If a bundle is unusable as files, or the two compute different things; the user acts.
        ToolchainError: If this machine cannot judge it at all.
    """
    from cuda_harness.graph import runner
    from cuda_harness.tools.execute.registry import executor as find
    from cuda_harness.tools.profile.session import as_clock
    from cuda_harness.tools.verify.bundle import load_bundle

    loaded = load_bundle(bundle)
    other = load_bundle(options.against) if options.against is not None else None
    if other is not None:
        require_same_problem(loaded, other)
    seed = settings.seed if settings.seed is not None else secrets.randbits(48)
    with contextlib.ExitStack() as stack:
        made = find(settings.executor, settings=settings)
        stack.callback(made.close)

        def judged(folder: Path) -> Verdict:
            return runner.verify(
                folder, executor=made, target=settings.target, seed=seed, max_seconds=options.max_seconds, settings=settings,
                on_stage=on_stage,
            )  # fmt: skip

        report = ProfileReport(bundle=str(bundle), verdict=judged(bundle))
        against = (
            Against(bundle=str(options.against), verdict=judged(options.against)) if options.against else None
        )
        clock = as_clock(made)
        if clock is None:
            reason = "the kernel ran on the CPU executor, whose time says nothing about a GPU"
            return _without_time(report, against, reason, loaded.ir)
        if not report.verdict.accepted:
            return _without_time(report, against, "only a verified kernel is timed", loaded.ir)
        return _Bench(loaded, other, clock, settings, seed, options).fill(report, against)


def _without_time(report: ProfileReport, against: Against | None, reason: str, ir: KernelIR) -> ProfileReport:
    from cuda_harness.tools.profile.diagnose import static_profile

    profile = static_profile(report.verdict.kernels, ir)
    told = against.model_copy(update={"reason": reason}) if against is not None else None
    return report.model_copy(
        update={"timing": TimingNotMeasured(reason=reason), "profile": profile, "against": told}
    )


def require_same_problem(a: "Bundle", b: "Bundle") -> None:
    """Pass when two bundles compute the same thing at the same sizes.

    Raises:
        ConfigError: Names what differs.
    """
    for name in ("dims", "tensors", "scalars"):
        if getattr(a.ir, name) != getattr(b.ir, name):
            msg = f"the bundles cannot be compared: their IRs differ in {name}"
            raise ConfigError(
                msg, remedy="compare two kernels of one problem: the same dims, tensors and scalars"
            )


class _Bench:
    """Times one bundle, and the other beside it."""

    def __init__(
        self, bundle: "Bundle", other: "Bundle | None", clock: "Clock", settings: Settings, seed: int, options: Options
    ) -> None:  # fmt: skip
        self.bundle, self.other, self.clock = bundle, other, clock
        self.settings, self.seed, self.options = settings, seed, options
        self.arch = settings.target or str(clock.facts()["arch"])

    def fill(self, report: ProfileReport, against: Against | None) -> ProfileReport:
        """Return the report with time, profile and comparison."""
        from cuda_harness.tools.profile.ceilings import Ceilings, ceilings
        from cuda_harness.tools.profile.workload import workload
        from cuda_harness.tools.synthesize.reference import ReferenceRunner
        from cuda_harness.tools.synthesize.suite import Suite

        kernel = self.bundle.kernel
        assert kernel is not None  # noqa: S101 - it was accepted
        with contextlib.closing(ReferenceRunner(unsafe=self.settings.unsafe_exec)) as references:
            suite = Suite(
                self.bundle.ir,
                self.bundle.reference,
                runner=references,
                seed=self.seed,
                specs=self.bundle.specs,
            )
            work = workload(self.bundle.ir, suite=suite)
            found = ceilings(self.clock)
            limits = found if isinstance(found, Ceilings) else None
            changes: dict[str, Any] = {}
            if self.options.tune:
                kernel, changes = self._tuned(kernel, work, suite)
            changes |= self._timed(kernel, work, limits)
            timing = changes["timing"]
            if self.options.libraries and isinstance(timing, Timing):
                from cuda_harness.tools.profile.library import torch_times

                times = torch_times(work, suite, self.clock, seed=self.seed)
                changes["timing"] = timing.model_copy(update={"libraries": times})
            if against is not None:
                changes["against"] = self._compared(kernel, work, against)
        return report.model_copy(update=changes)

    def _tuned(self, kernel: "Kernel", work: "Workload", suite: Any) -> "tuple[Kernel, dict[str, Any]]":  # noqa: ANN401 - Suite
        from cuda_harness.tools.profile.tuning import Tuning, tune

        found = tune(kernel, work, self.clock, suite=suite, arch=self.arch, seed=self.seed)
        if not isinstance(found, Tuning):
            return kernel, {"notes": (f"tunables were not searched: {found.reason}",)}
        tried = sum(t.status == "timed" for t in found.trials)
        told = f"{tried} of {found.total} configurations timed ({found.strategy}); " + (
            f"winner {found.tunables}" if found.changed else "the default stays"
        )
        return found.kernel, {"tunables": found.tunables, "notes": (told, *found.notes)}

    def _timed(self, kernel: "Kernel", work: "Workload", limits: "Ceilings | None") -> dict[str, Any]:
        from cuda_harness.tools.profile.explain import explain
        from cuda_harness.tools.profile.timing import time_kernel

        timing = time_kernel(kernel, work, self.clock, arch=self.arch, seed=self.seed, limits=limits)
        profile = explain(
            kernel,
            work,
            self.clock,
            timing=timing,
            limits=limits,
            arch=self.arch,
            counters=self.options.counters,
        )
        return {"timing": timing, "profile": profile}

    def _compared(self, kernel: "Kernel", work: "Workload", against: Against) -> Against:
        from cuda_harness.tools.profile.compare import compare

        other = self.other.kernel if self.other is not None else None
        if other is None or not against.verdict.accepted:
            return against.model_copy(update={"reason": "only a verified kernel is timed"})
        found = compare(other, kernel, self.bundle.ir, self.clock, work=work, arch=self.arch, seed=self.seed)
        if isinstance(found, TimingNotMeasured):
            return against.model_copy(update={"reason": found.reason})
        return against.model_copy(
            update={
                "median_us": found.a_us, "ratio": found.ratio, "ci95": found.ci95, "significant": found.significant,
                "notes": found.notes,
            }
        )  # fmt: skip


def exit_code(report: ProfileReport) -> int:
    """Return 0 when all that was asked for was measured, 5 when only a GPU is lacking, else 1."""
    others = [report.against.verdict] if report.against is not None else []
    if not all(v.accepted for v in [report.verdict, *others]):
        return 1
    if report.verdict.executor.partition(":")[0] == "cpu":
        return 5
    compared = report.against is None or report.against.ratio is not None
    return 0 if isinstance(report.timing, Timing) and compared else 1


def report_lines(report: ProfileReport) -> list[str]:
    """Return the report for a person."""
    from cuda_harness.graph.show import plain, verdict_lines

    lines = verdict_lines(report.verdict)
    timing, profile, against = report.timing, report.profile, report.against
    if isinstance(timing, Timing):
        low, high = timing.ci95_us
        lines.append(
            f"time: {timing.median_us:.2f} us ({low:.2f} to {high:.2f}), cold caches, on {plain(timing.device, 80)}"
        )
        if timing.warm_us is not None:
            lines.append(f"  warm caches: {timing.warm_us:.2f} us")
        if timing.graph_us is not None:
            lines.append(f"  replayed from a graph: {timing.graph_us:.2f} us")
        if timing.floor_us is not None and timing.sol_fraction is not None:
            lines.append(
                f"  floor: {timing.floor_us:.2f} us ({timing.floor_of}); {timing.sol_fraction:.1%} of the speed of light"
            )
        lines.extend(f"  note: {plain(n, 300)}" for n in timing.notes)
        lines.extend(f"  {_library_line(x)}" for x in timing.libraries)
    elif timing is not None:
        lines.append(
            f"time: {'rejected' if timing.rejected else 'not measured'}: {plain(timing.reason, 600)}"
        )
    if profile is not None:
        lines.append(f"profile ({profile.rung}): {plain(profile.sentence, 800)}")
        if profile.performance_score is not None:
            lines.append(f"  CUDABench's Performance-Score: {profile.performance_score:.3f}")
        if profile.reason:
            what = "counters of CUPTI" if profile.rung == "cupti" else "no counters"
            lines.append(f"  {what}: {plain(profile.reason, 300)}")
    if against is not None:
        lines.append(f"against {plain(against.bundle, 200)}: {_comparison(against)}")
    lines.extend(f"note: {plain(n, 300)}" for n in report.notes)
    return lines


def _library_line(found: LibraryTime) -> str:
    from cuda_harness.graph.show import plain

    if found.median_us is None:
        return f"{plain(found.name, 80)}: not measured: {plain(found.reason, 200)}"
    return f"{plain(found.name, 80)}: {found.median_us:.2f} us" + "".join(
        f"; {plain(n, 200)}" for n in found.notes
    )


def _comparison(against: Against) -> str:
    if against.ratio is None or against.ci95 is None:
        return f"not compared: {against.reason or against.verdict.outcome}"
    told = "" if against.significant else ": not told apart"
    return f"{against.ratio:.3f} times as fast ({against.ci95[0]:.3f} to {against.ci95[1]:.3f}){told}"
