"""The ladder: cheapest and most telling first, three-valued, stopped by the first failure."""

import contextlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuda_harness.state.errors import ConfigError, StateError
from cuda_harness.state.expr import ExprError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.results import (
    REQUIRED,
    STAGES,
    CompileEnvironment,
    CompileOk,
    CompileRejected,
    CompileTimedOut,
    Failure,
    KernelFacts,
    StageName,
    StageResult,
    Status,
    Verdict,
)
from cuda_harness.state.suite import Case
from cuda_harness.tools.execute.protocol import (
    Array,
    CallOutput,
    Executor,
    Job,
    JobFault,
    JobNotRun,
    JobOk,
    Mode,
    Program,
)
from cuda_harness.tools.ir.program import PlanFault, expand
from cuda_harness.tools.synthesize.proof import influence, prove
from cuda_harness.tools.synthesize.reference import ReferenceFault, ReferenceRunner
from cuda_harness.tools.synthesize.shapes import elements, work
from cuda_harness.tools.synthesize.suite import Answer, Suite
from cuda_harness.tools.toolchain.nvrtc import Compiler
from cuda_harness.tools.toolchain.source import SourceFacts, inspect
from cuda_harness.tools.verify.bundle import load_bundle
from cuda_harness.tools.verify.compare import Expected, Mismatch, compare_outputs
from cuda_harness.tools.verify.policy import float_atomics, launches, review

OnStage = Callable[[StageResult], None]
CPU_TARGET_S = 20.0
"""Wall seconds the target stage may take on the CPU executor before its sizes are reduced."""
CPU_PROBE_WORK = 20_000_000
"""Work that the CPU executor does in well under a second; larger targets are approached by measurement."""
CPU_TARGET_BYTES = 4 << 30
"""Most bytes of float64 copies of a target's buffers."""
_STRIDE = 128
"""Most growth of work from one measured run to the next."""
_SUPERLINEAR = 2.0
"""How much slower than in proportion a larger run may be once it leaves the caches."""


class _End(Exception):  # noqa: N818 - carries the failing stage's result out
    def __init__(self, status: Status, failure: Failure, detail: str = "") -> None:
        super().__init__(detail)
        self.status, self.failure, self.detail = status, failure, detail


class _Skipped(Exception):  # noqa: N818 - ends a stage that the verdict can do without
    """The stage could not be measured; the ladder goes on."""


@dataclass
class _Climb:
    """One kernel on its way up."""

    kernel: Kernel
    ir: KernelIR
    suite: Suite
    executor: Executor
    checker: Executor | None
    compiler: Compiler
    target: str
    seed: int
    deadline: float
    stages: list[StageResult] = field(default_factory=list)
    kernels: tuple[KernelFacts, ...] = ()
    warnings: list[str] = field(default_factory=list)
    facts: SourceFacts = field(default_factory=SourceFacts)
    scaled: dict[str, int] | None = None
    covered: dict[str, Any] = field(default_factory=dict)
    """What the stage under way has exercised."""

    @property
    def tunables(self) -> list[int]:
        """Numbers at which this kernel's behaviour may change: its tunables, blocks and the integers of its grids."""
        return critical_sizes(self.kernel.plan)


def critical_sizes(plan: LaunchPlan) -> list[int]:
    """Return tunables, block sizes and integers in grid expressions: sizes around them are worth trying."""
    found = {v for values in plan.tunables.values() for v in values}
    defaults = plan.default_tunables()
    for launch in launches(plan.steps):
        threads = 1
        for axis in launch.block:
            with contextlib.suppress(ExprError):
                threads *= axis.evaluate(defaults)
        found.add(threads)
        for expr in launch.grid:
            found |= {int(n) for n in re.findall(r"\b\d{1,4}\b", expr.text)}
    return sorted(n for n in found if n > 1)


def comparer(ir: KernelIR, dims: Any, got: Any, answer: Answer, inputs: Any) -> str | None:  # noqa: ANN401 - Compare's shape
    """Return why `got` is wrong, `None` when it is right; what the suite's proof calls."""
    found = compare_outputs(ir, dims, got, _expected(answer), inputs=inputs)
    return found.message if isinstance(found, Mismatch) else None


def _expected(answer: Answer) -> Expected:
    return Expected(answer.arrays, answer.defined, answer.sensitivity)


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
    climb = _Climb(
        kernel, ir, suite, executor, checker, compiler, target, seed, time.monotonic() + max_seconds
    )
    steps: tuple[tuple[StageName, Callable[[_Climb], str]], ...] = (
        ("parse", _parse), ("policy", _policy), ("compile", _compile), ("launch_config", _launch_config), ("tiny", _tiny),
        ("shapes", _shapes), ("values", _values), ("target", _target), ("repeat", _repeat),
    )  # fmt: skip
    failure = None
    for name, step in steps:
        began = time.monotonic()
        climb.covered = {}
        try:
            detail, status = step(climb), "passed"
            if detail.startswith("not measured: "):
                detail, status = detail.removeprefix("not measured: "), "not_measured"
        except _Skipped as skipped:
            detail, status = str(skipped), "not_measured"
        except _End as end:
            failure, detail, status = end.failure, end.detail or end.failure.message, end.status
        result = StageResult(
            name=name, status=status, seconds=round(time.monotonic() - began, 4), detail=detail[:600], covered=climb.covered,
            scaled=climb.scaled if name == "target" else None,
        )  # fmt: skip
        climb.stages.append(result)
        if on_stage is not None:
            on_stage(result)
        if failure is not None:
            break
    return _verdict(climb, failure, hashes or {})


def _verdict(climb: _Climb, failure: Failure | None, hashes: dict[str, str]) -> Verdict:
    done = {s.name for s in climb.stages}
    why = "an earlier stage ended the ladder" if failure is not None else "not part of this run"
    for name in STAGES:
        if name not in done:
            detail = (
                why if name != "sanitizer" or failure is not None else "needs a GPU and compute-sanitizer"
            )
            climb.stages.append(StageResult(name=name, status="not_measured", detail=detail))
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


def _fail(stage: StageName, class_: str, message: str, evidence: dict[str, Any] | None = None) -> _End:
    return _End(
        "failed", Failure(stage=stage, class_=class_, message=message[:3_000], evidence=evidence or {})
    )


def _unmeasured(stage: StageName, class_: str, message: str, evidence: dict[str, Any] | None = None) -> _End:
    return _End(
        "not_measured", Failure(stage=stage, class_=class_, message=message[:3_000], evidence=evidence or {})
    )


# ---- stages ----
def _parse(climb: _Climb) -> str:
    climb.facts = inspect(climb.kernel.source)
    if not climb.facts.kernels:
        errors = climb.facts.syntax_errors
        raise _fail(
            "parse",
            "parse",
            errors[0].text
            if errors and "__global__" not in climb.kernel.source
            else 'kernel.cu has no extern "C" __global__ function',
        )
    for dims in (
        climb.ir.target_dims,
        *(c.dims for c in climb.suite.cases("tiny", tunables=climb.tunables)[:2]),
    ):
        program = _expand(climb, dims, {})
        if isinstance(program, PlanFault) and program.stage == "parse":
            raise _fail("parse", "parse", program.message, program.evidence)
    return f"{len(climb.facts.kernels)} kernel(s), plan of {len(climb.kernel.plan.steps)} step(s)"


def _policy(climb: _Climb) -> str:
    if climb.kernel.plan.compile.fast_math and not climb.ir.numerics.fast_math:
        text = "the plan compiles with fast_math, which the IR's numerics do not allow"
        raise _fail("policy", "policy", text)
    found = review(climb.facts, climb.kernel.plan)
    refused = [f for f in found if f.refused]
    if refused:
        first = refused[0]
        where = f"line {first.line}: " if first.line else ""
        raise _fail("policy", "policy", where + first.message, {"line": first.line} if first.line else {})
    added = float_atomics(climb.kernel.source, climb.facts)
    if added and climb.ir.numerics.deterministic:
        text = f"line {added[0].line}: {added[0].text}; the IR asks for the same bits in every run: reduce in a fixed order"
        raise _fail("policy", "nondeterministic", text, {"line": added[0].line})
    climb.warnings += [f"line {a.line}: {a.text}" for a in added[:3]]
    climb.warnings += [(f"line {f.line}: " if f.line else "") + f.message for f in found]
    return "no refusals" + (f", {len(found)} hint(s)" if found else "")


def _macros(climb: _Climb, dims: dict[str, int]) -> dict[str, int] | PlanFault:
    program = _expand(climb, dims, {})
    return program if isinstance(program, PlanFault) else dict(program.macros)


def _compile(climb: _Climb) -> str:
    macros = _macros(climb, climb.ir.target_dims)
    if isinstance(macros, PlanFault):
        return f"not measured: the plan has no launch at the target to compile for ({macros.message})"
    options = climb.kernel.plan.compile
    done = climb.compiler.compile(
        climb.kernel.source, arch=climb.target, macros=macros, fast_math=options.fast_math,
        max_registers=options.max_registers,
    )  # fmt: skip
    match done:
        case CompileOk():
            climb.kernels = done.kernels
            climb.warnings += [
                f"line {w.line}: {w.message}" if w.line else w.message for w in done.warnings[:5]
            ]
            spilled = [k for k in done.kernels if k.spill_store_bytes]
            facts = ", ".join(f"{k.name}: {k.registers} registers" for k in done.kernels[:4])
            return f"cubin for {climb.target}; {facts}" + (f"; {spilled[0].name} spills" if spilled else "")
        case CompileRejected():
            errors = [d for d in done.diagnostics if d.severity == "error"]
            text = (
                "; ".join((f"line {d.line}: " if d.line else "") + d.message for d in errors[:4])
                or done.log[:600]
            )
            evidence = {"diagnostics": [d.model_dump() for d in errors[:8]]}
            if errors and errors[0].line:
                evidence["line"] = errors[0].line  # type: ignore[assignment]
            raise _fail("compile", "compile", text, evidence)
        case CompileTimedOut():
            raise _fail(
                "compile",
                "compile",
                f"the compiler did not end within {done.seconds:.0f} s: template recursion or enormous unrolling",
            )
        case CompileEnvironment():
            raise _unmeasured("compile", "environment", f"{done.message} ({done.remedy})")


def _launch_config(climb: _Climb) -> str:
    sizes = [
        climb.ir.target_dims,
        *(c.dims for stage in ("tiny", "shapes") for c in climb.suite.cases(stage, tunables=climb.tunables)),
    ]
    checked = 0
    by_name = {k.name: k for k in climb.kernels}
    limits = climb.executor.device()
    for dims in sizes:
        program = _expand(climb, dims, {})
        if isinstance(program, PlanFault):
            raise _fail(
                "launch_config",
                program.class_,
                f"at sizes {dims}: {program.message}",
                {**program.evidence, "dims": dims},
            )
        for op in program.ops:
            name = getattr(op, "kernel", None)
            facts = by_name.get(name) if name else None
            if facts is None:
                continue
            threads = op.block[0] * op.block[1] * op.block[2]  # type: ignore[union-attr]
            if facts.registers and facts.registers * threads > limits.registers_per_block:
                most = limits.registers_per_block // facts.registers // 32 * 32
                raise _fail(
                    "launch_config", "launch_config",
                    f"{name} needs {facts.registers} x {threads} = {facts.registers * threads} registers > {limits.registers_per_block}; "
                    f"use a block of at most {most} or __launch_bounds__",
                    {"dims": dims},
                )  # fmt: skip
            shared = (facts.shared_bytes or 0) + op.shared_bytes  # type: ignore[union-attr]
            if shared > limits.shared_bytes_optin:
                raise _fail(
                    "launch_config", "launch_config",
                    f"{name} uses {facts.shared_bytes} bytes of static and {op.shared_bytes} of dynamic shared memory = {shared}; "  # type: ignore[union-attr]
                    f"a block may have {limits.shared_bytes_optin}",
                    {"dims": dims},
                )  # fmt: skip
        checked += 1
    return f"{checked} sets of sizes within the limits"


def _tiny(climb: _Climb) -> str:
    if climb.checker is None:
        return "not measured: the CPU executor is not available here (no g++)"
    return _run_cases(
        climb, "tiny", climb.suite.cases("tiny", tunables=climb.tunables), climb.checker, "check"
    )


def _shapes(climb: _Climb) -> str:
    return _run_cases(
        climb, "shapes", climb.suite.cases("shapes", tunables=climb.tunables), climb.executor, "plain"
    )


def _values(climb: _Climb) -> str:
    return _run_cases(
        climb, "values", climb.suite.cases("values", tunables=climb.tunables), climb.executor, "plain"
    )


def _target(climb: _Climb) -> str:
    if climb.executor.name != "cpu":
        return _run_cases(climb, "target", climb.suite.cases("target"), climb.executor, "plain")
    budget = max(2.0, min(CPU_TARGET_S, (climb.deadline - time.monotonic()) / 2))
    dims = _bearable(climb, budget)
    for left in (2, 1, 0):
        climb.scaled = {n: v for n, v in dims.items() if v != climb.ir.target_dims[n]} or None
        note = "; reduced to what this CPU bears" if climb.scaled else ""
        cases = climb.suite.cases("target", target=dims)
        try:
            return _run_cases(climb, "target", cases, climb.executor, "plain") + note
        except _End as end:
            smaller = climb.suite.scaled_target(max(work(climb.ir, dims) // 8, 100_000))
            # A slow CPU is not the kernel's fault: only a size that must be quick convicts it.
            if end.failure.class_ != "timeout" or not left or smaller == dims:
                raise
            dims = smaller
    msg = "the last try returns or raises"
    raise StateError(msg)


def _bearable(climb: _Climb, budget_s: float) -> dict[str, int]:
    """Return the largest target sizes that the CPU executor bears within the budget.

    Measured, by runs at growing sizes: time per work of a few blocks says little about a grid that leaves the caches.
    """
    full = climb.ir.target_dims
    limit, dims = CPU_PROBE_WORK, climb.suite.scaled_target(CPU_PROBE_WORK)
    while dims != full:
        cost = work(climb.ir, dims)
        program = _expand(climb, dims, {})
        if isinstance(program, PlanFault) or 8 * sum(b.count for b in program.buffers) > CPU_TARGET_BYTES:
            return dims
        case = climb.suite.cases("target", target=dims)[0]
        done = climb.executor.run(
            _job(climb, program, (climb.suite.inputs(case),), "plain", deadline_s=budget_s)
        )
        if not isinstance(done, JobOk):
            return dims  # the stage runs these sizes again, and says what is wrong
        bearable = int(cost * budget_s / (_SUPERLINEAR * max(done.seconds, 1e-3)))
        grown = climb.suite.scaled_target(min(bearable, _STRIDE * limit))
        while grown != dims and 8 * elements(climb.ir, grown) > CPU_TARGET_BYTES:
            grown = climb.suite.scaled_target(work(climb.ir, grown) // 2)
        if work(climb.ir, grown) < 2 * cost:
            return dims
        if grown == full or bearable < _STRIDE * limit:
            return grown
        limit, dims = _STRIDE * limit, grown
    return full


def _repeat(climb: _Climb) -> str:
    drawn = climb.suite.cases("repeat", tunables=climb.tunables)
    # One set of scalars, so that all calls run in one process at the same addresses; how many is not known before.
    calls = 5 + climb.seed % 4
    cases = tuple(
        c.model_copy(
            update={"id": f"{c.id}-call{i}", "seed": c.seed + 7_919 * i, "scalars": drawn[0].scalars}
        )
        for i, c in ((i, drawn[i % len(drawn)]) for i in range(calls))
    )
    first: dict[str, dict[str, Array]] = {}
    again: dict[str, dict[str, Array]] = {}
    _run_cases(climb, "repeat", cases, climb.executor, "plain", poison=1, keep=first)
    detail = _run_cases(
        climb, "repeat", tuple(reversed(cases)), climb.executor, "plain", poison=2, keep=again
    )
    differing = _differing_bits(first, again)
    if differing is not None:
        text = f"the bits of output {differing!r} differ between two runs on the same inputs"
        if climb.ir.numerics.deterministic:
            raise _fail(
                "repeat", "nondeterministic",
                f"{text}, which `deterministic` forbids: sums by float atomics depend on the order of threads",
                {"output": differing, "dims": cases[0].dims},
            )  # fmt: skip
        climb.warnings.append(f"{text}: within the tolerance, as float atomics or free order make it")
    return f"{detail}; each in two processes with other poison and order"


def _differing_bits(
    first: Mapping[str, Mapping[str, Array]], again: Mapping[str, Mapping[str, Array]]
) -> str | None:
    """Return the output whose bits differ between two runs of one case, `None` when there is none."""
    for case, arrays in first.items():
        for name, array in arrays.items():
            if case in again and array.tobytes() != again[case][name].tobytes():
                return name
    return None


# ---- running cases ----
def _expand(climb: _Climb, dims: dict[str, int], scalars: dict[str, Any]) -> Program | PlanFault:
    return expand(
        climb.ir, climb.kernel.plan, dims=dims, scalars=scalars, tunables=None, kernels=climb.facts.kernels,
        device=climb.executor.device(),
    )  # fmt: skip


def _job(
    climb: _Climb, program: Program, calls: tuple[Any, ...], mode: Mode, *, deadline_s: float, poison: int = 0
) -> Job:
    options = climb.kernel.plan.compile
    return Job(
        source=climb.kernel.source, program=program, calls=calls, mode=mode, poison=(climb.seed + poison * 7_777) & 0x7FFFFFFF,
        fast_math=options.fast_math, max_registers=options.max_registers, arch=climb.target, deadline_s=deadline_s,
    )  # fmt: skip


def _batches(cases: Sequence[Case]) -> list[list[Case]]:
    """Group neighbours with equal sizes and scalars: they run as several calls in one process."""
    groups: list[list[Case]] = []
    for case in cases:
        if (
            groups
            and groups[-1][0].dims == case.dims
            and groups[-1][0].scalars == case.scalars
            and len(groups[-1]) < 8
        ):
            groups[-1].append(case)
        else:
            groups.append([case])
    return groups


def _run_cases(
    climb: _Climb, stage: StageName, cases: Sequence[Case], executor: Executor, mode: Mode, *, poison: int = 0,
    keep: dict[str, dict[str, Array]] | None = None,
) -> str:  # fmt: skip
    if stage == "values":
        cases = sorted(cases, key=lambda c: str(c.dims))
    try:
        answers = climb.suite.answers(cases)
    except ConfigError as exc:
        raise _unmeasured(stage, "oracle", exc.message) from exc
    if isinstance(answers, ReferenceFault):
        class_ = "resources" if answers.kind == "resources" else "oracle"
        raise _unmeasured(stage, class_, answers.message, {"kind": answers.kind})
    run = 0
    for group in _batches([c for c in cases if c.id in answers]):
        left = climb.deadline - time.monotonic()
        if left <= 0:
            raise _unmeasured(
                stage, "resources", f"the time for judging is over after {run} of {len(cases)} cases"
            )
        outputs = _run_group(climb, stage, group, answers, executor, mode, poison=poison, left=left)
        if keep is not None:
            keep |= {c.id: _defined(o.arrays, answers[c.id]) for c, o in zip(group, outputs, strict=True)}
        run += len(group)
    if not run:
        raise _unmeasured(
            stage, "weak_suite", "no case of this stage has a truth that the output's dtype can hold"
        )
    asked = [c for c in cases if c.id in answers]
    sizes = {tuple(c.dims.items()) for c in asked}
    regimes = {c.regime for c in asked}
    climb.covered = {
        "cases": climb.covered.get("cases", 0) + run, "dims": [dict(s) for s in sorted(sizes)[:16]],
        "regimes": sorted(regimes), "mode": mode, "without_truth": len(cases) - len(asked),
    }  # fmt: skip
    return f"{run} case(s), {len(sizes)} set(s) of sizes, {len(regimes)} regime(s)" + (
        " in check mode" if mode == "check" else ""
    )


def _run_group(
    climb: _Climb, stage: StageName, group: Sequence[Case], answers: dict[str, Answer], executor: Executor, mode: Mode, *,
    poison: int, left: float,
) -> tuple[CallOutput, ...]:  # fmt: skip
    first = group[0]
    program = _expand(climb, first.dims, first.scalars)
    if isinstance(program, PlanFault):
        raise _fail(stage, program.class_, f"at sizes {first.dims}: {program.message}", program.evidence)
    calls = tuple(climb.suite.inputs(c) for c in group)
    deadline_s = min(left, 60.0 if stage == "target" else 20.0)
    done = executor.run(_job(climb, program, calls, mode, deadline_s=deadline_s, poison=poison))
    where = {"dims": first.dims, "regime": first.regime}
    if isinstance(done, JobFault):
        if done.fault == "timeout" and left < 20.0:
            raise _unmeasured(stage, "resources", f"the time for judging is over: {done.message}", where)
        raise _fail(stage, done.fault, f"{done.message} [sizes {first.dims}]", {**done.evidence, **where})
    if isinstance(done, JobNotRun):
        if stage == "tiny" and executor is not climb.executor:
            raise _Skipped(f"{done.reason} on the CPU executor: {done.message}")
        raise _unmeasured(stage, done.reason, done.message, {**done.evidence, **where})
    _compare_calls(climb, stage, group, answers, calls, done)
    return done.calls


def _defined(arrays: Mapping[str, Array], answer: Answer) -> dict[str, Array]:
    """Return what of each output the request defines: the rest may hold anything."""
    return {
        n: a.reshape(-1)[answer.defined[n].reshape(-1)] if n in answer.defined else a
        for n, a in arrays.items()
    }


def _compare_calls(
    climb: _Climb,
    stage: StageName,
    group: Sequence[Case],
    answers: dict[str, Answer],
    calls: tuple[Any, ...],
    done: JobOk,
) -> None:
    for text in done.warnings:
        if text not in climb.warnings:
            climb.warnings.append(text)
    for number, (case, call, inputs) in enumerate(zip(group, done.calls, calls, strict=True)):
        answer = answers[case.id]
        where = {"dims": case.dims, "regime": case.regime, "call": number + 1}
        for name, missing in call.unwritten.items():
            if missing and _really_unwritten(climb.ir, case, name, call.unwritten_at.get(name), answer):
                total = call.arrays[name].nbytes
                raise _fail(
                    stage,
                    "unwritten_output",
                    f"{missing} of {total} bytes of {name!r} are never written [sizes {case.dims}]",
                    {**where, "output": name},
                )
        found = compare_outputs(climb.ir, case.dims, call.arrays, _expected(answer), inputs=inputs)
        if isinstance(found, Mismatch):
            hint = (
                f"; call {number + 1} of one process, the calls before it were right: state of an earlier call leaks in"
                if number > 0 and stage == "repeat"
                else ""
            )
            raise _fail(
                stage,
                found.class_,
                f"{found.message}{hint} [sizes {case.dims}, regime {case.regime}]",
                {**found.evidence, **where},
            )


def _really_unwritten(ir: KernelIR, case: Case, name: str, mask: Any, answer: Answer) -> bool:  # noqa: ANN401 - a mask or None
    """Return whether bytes that look unwritten belong to elements that the request defines."""
    defined = answer.defined.get(name)
    if defined is None:
        return True
    if mask is None or mask.size != defined.size:
        return not defined.all()
    _ = ir, case
    return bool((mask.reshape(-1) & defined.reshape(-1)).any())


# ---- bundles ----
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
        tunables = critical_sizes(kernel.plan)
        doubt = doubt_suite(suite, tunables)
        if doubt is not None:
            early = _static_failure(kernel, bundle.ir, suite, executor, compiler, target, seed)
            return early or _only(doubt, "not_measured", executor, target, seed, bundle.hashes, on_stage)
        return judge(
            kernel, bundle.ir, suite, executor=executor, compiler=compiler, target=target, seed=seed,
            max_seconds=max_seconds, checker=checker, on_stage=on_stage, hashes=bundle.hashes,
        )  # fmt: skip
    finally:
        if references is None:
            runner.close()


def doubt_suite(suite: Suite, tunables: Sequence[int]) -> Failure | None:
    """Return why the suite may not judge (`oracle` or `weak_suite`), `None` when it proved itself."""
    try:
        cases = suite.cases("tiny", tunables=tunables)
        moved = influence(suite, cases) and influence(suite, suite.cases("shapes", tunables=tunables)[-6:])
        if moved is not None:
            return Failure(stage="shapes", class_="oracle", message=moved)
        proof = prove(suite, comparer, tunables=tunables)
    except ConfigError as exc:
        return Failure(stage="shapes", class_="oracle", message=exc.message)
    if isinstance(proof, ReferenceFault):
        return Failure(stage="shapes", class_="oracle", message=proof.message, evidence={"kind": proof.kind})
    if not proof.passed:
        missed = [p.name for p in proof.plants if not p.rejected]
        unfair = [n for n, ok in proof.honest.items() if not ok]
        text = (
            f"the suite does not reject: {', '.join(missed)}"
            if missed
            else f"the suite rejects what is right: {', '.join(unfair) or 'all'}"
        )
        return Failure(
            stage="shapes", class_="weak_suite", message=text, evidence={"missed": missed, "unfair": unfair}
        )
    return None


def _static_failure(
    kernel: Kernel, ir: KernelIR, suite: Suite, executor: Executor, compiler: Compiler, target: str, seed: int
) -> Verdict | None:
    """Return the verdict when the candidate fails before any data is needed: no suite is to blame for that."""
    climb = _Climb(kernel, ir, suite, executor, None, compiler, target, seed, time.monotonic() + 120)
    for name, step in (("parse", _parse), ("policy", _policy), ("compile", _compile)):
        began = time.monotonic()
        try:
            detail = step(climb)
        except _End as end:
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
    stages = [
        StageResult(name=n, status=status if n == failure.stage else "not_measured", detail=failure.message[:600] if n == failure.stage else "the suite or the plan ended the ladder")
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
