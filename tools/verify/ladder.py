"""The ladder: cheapest and most telling first, three-valued, stopped by the first failure."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import (
    REQUIRED,
    STAGES,
    Failure,
    StageName,
    StageResult,
    Status,
    Verdict,
)
from cuda_harness.tools.execute.protocol import (
    Executor,
)
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.toolchain.nvrtc import Compiler
from cuda_harness.tools.verify.bundle import load_bundle
from cuda_harness.tools.verify.climb import Climb, Ending, Skipped, critical_sizes
from cuda_harness.tools.verify.examine import doubt_suite, examine_bundle
from cuda_harness.tools.verify.repeat import repeat_stage
from cuda_harness.tools.verify.sanitizer import sanitizer_stage
from cuda_harness.tools.verify.stages import (
    compile_stage,
    launch_config_stage,
    parse_stage,
    policy_stage,
    shapes_stage,
    target_stage,
    tiny_stage,
    values_stage,
)

__all__ = ["OnStage", "doubt_suite", "judge", "verify_bundle"]

OnStage = Callable[[StageResult], None]


def judge(
    kernel: Kernel,
    ir: KernelIR,
    suite: Suite,
    *,
    executor: Executor,
    compiler: Compiler,
    target: str,
    seed: int,
    max_seconds: float,
    checker: Executor | None = None,
    on_stage: OnStage | None = None,
    hashes: dict[str, str] | None = None,
) -> Verdict:
    """Return the verdict on `kernel`.

    Args:
        kernel: The candidate.
        ir: What it must compute.
        suite: Data and truths, proved before (`verify_bundle` and the Synthesizer do that).
        executor: Runs the stages from `shapes` on, and is named in the verdict.
        compiler: NVRTC.
        target: Architecture.
        seed: For poison and addresses.
        max_seconds: Wall seconds for the whole ladder; what does not fit is not measured.
        checker: Runs `tiny` in check mode; `None`: `executor` when it has that mode.
        on_stage: Called after each stage.
        hashes: Identities to note in the verdict.
    """
    checker = checker or (executor if "check" in executor.modes else None)
    climb = Climb(
        kernel, ir, suite, executor, checker, compiler, target, seed, time.monotonic() + max_seconds
    )
    steps: tuple[tuple[StageName, Callable[[Climb], str]], ...] = (
        ("parse", parse_stage), ("policy", policy_stage), ("compile", compile_stage), ("launch_config", launch_config_stage), ("tiny", tiny_stage),
        ("shapes", shapes_stage), ("values", values_stage), ("target", target_stage), ("repeat", repeat_stage),
        ("sanitizer", sanitizer_stage),
    )  # fmt: skip
    try:
        failure = _climbed(climb, steps, on_stage)
    finally:
        if climb.ahead is not None:
            climb.ahead.close()
    return _verdict(climb, failure, hashes or {})


def _climbed(
    climb: Climb, steps: Sequence[tuple[StageName, Callable[[Climb], str]]], on_stage: OnStage | None
) -> Failure | None:
    """Go through the stages until one ends the climb, and return why."""
    for name, step in steps:
        failure = None
        began = time.monotonic()
        climb.covered = {}
        try:
            detail, status = step(climb), "passed"
            if detail.startswith("not measured: "):
                detail, status = detail.removeprefix("not measured: "), "not_measured"
        except Skipped as skipped:
            detail, status = str(skipped), "not_measured"
        except Ending as end:
            failure, detail, status = end.failure, end.detail or end.failure.message, end.status
        result = StageResult(
            name=name, status=status, seconds=round(time.monotonic() - began, 4), detail=detail[:600], covered=climb.covered,
            scaled=climb.scaled if name == "target" else None,
        )  # fmt: skip
        climb.stages.append(result)
        if on_stage is not None:
            on_stage(result)
        if failure is not None:
            return failure
    return None


def _verdict(climb: Climb, failure: Failure | None, hashes: dict[str, str]) -> Verdict:
    done = {s.name for s in climb.stages}
    why = "an earlier stage ended the ladder" if failure is not None else "not part of this run"
    for name in STAGES:
        if name not in done:
            climb.stages.append(StageResult(name=name, status="not_measured", detail=why))
    if failure is not None:
        outcome = "rejected" if failure.is_candidates else "undecided"
    else:
        passed = {s.name for s in climb.stages if s.status == "passed"}
        outcome = "accepted" if set(REQUIRED) <= passed else "undecided"
    fixed = {d.name: d.value for d in climb.ir.dims if d.fixed}
    return Verdict(
        outcome=outcome, executor=climb.executor.name, target=climb.target,
        verified_for=fixed or None,
        stages=tuple(climb.stages), failure=failure, kernels=climb.kernels, warnings=tuple(climb.warnings[:20]), seed=climb.seed,
        sha256=hashes,
    )  # fmt: skip


def verify_bundle(
    folder: Path,
    *,
    executor: Executor,
    compiler: Compiler,
    target: str,
    seed: int | None,
    max_seconds: float,
    references: ReferenceRunner | None = None,
    checker: Executor | None = None,
    on_stage: OnStage | None = None,
) -> Verdict:
    """Return the verdict on a bundle; its reference is authoritative, but the suite is proved before it judges.

    `max_seconds` covers that proof too.

    Raises:
        ConfigError: If the bundle is unusable as files; the user acts.
        ToolchainError: If this machine cannot judge.
    """
    import secrets

    bundle = load_bundle(folder)
    seed = seed if seed is not None else secrets.randbits(48)
    runner = references or ReferenceRunner(unsafe=bool(getattr(executor, "_unsafe", False)))
    try:
        kernel = bundle.kernel
        if kernel is None:
            failure = Failure(stage="parse", class_="parse", message=str(bundle.plan)[:3_000])
            return _only(failure, "failed", executor, target, seed, bundle.hashes, on_stage)
        suite = Suite(bundle.ir, bundle.reference, runner=runner, seed=seed, specs=bundle.specs)
        deadline = time.monotonic() + max_seconds
        suite.deadline = deadline
        examined = examine_bundle(suite, critical_sizes(kernel.plan))
        if isinstance(examined, Failure):
            early = _static_failure(kernel, bundle.ir, suite, executor, compiler, target, seed, deadline)
            return early or _only(examined, "not_measured", executor, target, seed, bundle.hashes, on_stage)
        verdict = judge(
            kernel, bundle.ir, suite, executor=executor, compiler=compiler, target=target, seed=seed,
            max_seconds=deadline - time.monotonic(), checker=checker, on_stage=on_stage, hashes=bundle.hashes,
        )  # fmt: skip
        return verdict.model_copy(update={"suite": examined.votes})
    finally:
        if references is None:
            runner.close()


def _static_failure(
    kernel: Kernel, ir: KernelIR, suite: Suite, executor: Executor, compiler: Compiler, target: str, seed: int,
    deadline: float,
) -> Verdict | None:  # fmt: skip
    """Return the verdict when the candidate fails before any data is needed: no suite is to blame for that."""
    climb = Climb(kernel, ir, suite, executor, None, compiler, target, seed, deadline)
    for name, step in (("parse", parse_stage), ("policy", policy_stage), ("compile", compile_stage)):
        began = time.monotonic()
        try:
            detail = step(climb)
        except Ending as end:
            climb.stages.append(
                StageResult(
                    name=name,
                    status=end.status,
                    seconds=time.monotonic() - began,
                    detail=end.failure.message[:600],
                )
            )
            return _verdict(climb, end.failure, {}) if end.failure.is_candidates else None
        climb.stages.append(
            StageResult(name=name, status="passed", seconds=time.monotonic() - began, detail=detail[:600])
        )
    return None


def _only(
    failure: Failure,
    status: Status,
    executor: Executor,
    target: str,
    seed: int,
    hashes: dict[str, str],
    on_stage: OnStage | None,
) -> Verdict:
    other = "the plan ended the ladder" if failure.is_candidates else "the kernel was not judged"
    stages = [
        StageResult(name=n, status=status if n == failure.stage else "not_measured", detail=failure.message[:600] if n == failure.stage else other)
        for n in STAGES
    ]  # fmt: skip
    if on_stage is not None:
        for stage in stages:
            on_stage(stage)
    outcome = "rejected" if failure.is_candidates else "undecided"
    return Verdict(
        outcome=outcome,
        executor=executor.name,
        target=target,
        stages=tuple(stages),
        failure=failure,
        seed=seed,
        sha256=hashes,
    )
