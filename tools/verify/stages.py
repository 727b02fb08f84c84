"""The stages of the ladder, each of which returns what it covered or ends the climb."""

import contextlib
import threading
import time
from collections.abc import Sequence
from typing import Any

from cuda_harness.state.errors import StateError
from cuda_harness.state.results import (
    CompileEnvironment,
    CompileRejected,
    CompileTimedOut,
)
from cuda_harness.state.suite import Case
from cuda_harness.tools.execute.protocol import Array
from cuda_harness.tools.ir.program import PlanFault
from cuda_harness.tools.synthesize.cases import LONG_WORK
from cuda_harness.tools.synthesize.reference import ReferenceFault
from cuda_harness.tools.synthesize.shapes import elements, work
from cuda_harness.tools.toolchain.source import inspect
from cuda_harness.tools.verify.ahead import Ahead
from cuda_harness.tools.verify.cases import Planned, run_ahead, run_cases, started
from cuda_harness.tools.verify.climb import Climb, Ending, fail, leave_unmeasured, program_for
from cuda_harness.tools.verify.landmarks import beyond
from cuda_harness.tools.verify.metamorphic import check_properties
from cuda_harness.tools.verify.policy import float_atomics, lowered_precision, review
from cuda_harness.tools.verify.reach import explore, foreseen
from cuda_harness.tools.verify.repeat import AGAIN, FIRST, repeated
from cuda_harness.tools.verify.target import CPU_TARGET_S, bearable_size, bearable_target

_OTHER_SMS = (1, 132)
"""Multiprocessors beside the CPU executor's own number: one block must do all, and those of an H100 must fit."""


_EQUAL_WORK = 4_000_000
"""Most work of a target that is run a second time."""
_AHEAD_BYTES = 256 << 20
"""Most bytes (float64 copies) of a target that runs ahead of its stage: what it wrote waits in memory until then."""
_BEYOND_S = 8.0
"""Most wall seconds for sizes beyond limits of the plan."""


def parse_stage(climb: Climb) -> str:
    """Kernels are found and the plan names only what there is."""
    climb.facts = inspect(climb.kernel.source)
    if not climb.facts.kernels:
        errors = climb.facts.syntax_errors
        fail(
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
        program = program_for(climb, dims, {})
        if isinstance(program, PlanFault) and program.stage == "parse":
            fail("parse", "parse", program.message, program.evidence)
    return f"{len(climb.facts.kernels)} kernel(s), plan of {len(climb.kernel.plan.steps)} step(s)"


def policy_stage(climb: Climb) -> str:
    """Nothing that is refused is in the source; hints become warnings."""
    if climb.kernel.plan.compile.fast_math and not climb.ir.numerics.fast_math:
        text = "the plan compiles with fast_math, which the IR's numerics do not allow"
        fail("policy", "policy", text)
    found = review(climb.facts, climb.kernel.plan)
    refused = [f for f in found if f.refused]
    if refused:
        first = refused[0]
        where = f"line {first.line}: " if first.line else ""
        fail("policy", "policy", where + first.message, {"line": first.line} if first.line else {})
    added = float_atomics(climb.kernel.source, climb.facts)
    climb.float_atomics = tuple(added)
    climb.warnings += [f"line {a.line}: {a.text}" for a in added[:3]]
    climb.warnings += [(f"line {f.line}: " if f.line else "") + f.message for f in found]
    return "no refusals" + (f", {len(found)} hint(s)" if found else "")


def compile_stage(climb: Climb) -> str:
    """NVRTC makes a cubin for the target, of instructions that the precision policy allows."""
    macros = _macros(climb, climb.ir.target_dims)
    if isinstance(macros, PlanFault):
        return f"not measured: the plan has no launch at the target to compile for ({macros.message})"
    options = climb.kernel.plan.compile
    _build_beside(climb, macros)
    done = climb.compiler.compile(
        climb.kernel.source, arch=climb.target, macros=macros, fast_math=options.fast_math,
        max_registers=options.max_registers,
    )  # fmt: skip
    if isinstance(done, CompileEnvironment):
        leave_unmeasured("compile", "environment", f"{done.message} ({done.remedy})")
    if isinstance(done, CompileTimedOut):
        text = (
            f"the compiler did not end within {done.seconds:.0f} s: template recursion or enormous unrolling"
        )
        fail("compile", "compile", text)
    if isinstance(done, CompileRejected):
        errors = [d for d in done.diagnostics if d.severity == "error"]
        told = [(f"line {d.line}: " if d.line else "") + d.message for d in errors]
        evidence: dict[str, Any] = {"diagnostics": [d.model_dump() for d in errors[:8]]}
        if errors and errors[0].line:
            evidence["line"] = errors[0].line
        fail("compile", "compile", "; ".join(told[:4]) or done.log[:600], evidence)
    climb.kernels, climb.mixes = done.kernels, done.mixes
    lowered = lowered_precision(climb.ir, climb.kernel.plan, done.mixes)
    if lowered is not None:
        fail("compile", "precision", *lowered)
    climb.warnings += [f"line {w.line}: {w.message}" if w.line else w.message for w in done.warnings[:5]]
    spilled = [k.name for k in done.kernels if k.spill_store_bytes]
    facts = ", ".join(f"{k.name}: {k.registers} registers" for k in done.kernels[:4])
    return f"cubin for {climb.target}; {facts}" + (f"; {spilled[0]} spills" if spilled else "")


def _build_beside(climb: Climb, macros: dict[str, int]) -> None:
    """Have the kernel built for check mode meanwhile; what comes of it is told where it first runs."""
    build = getattr(climb.checker, "build", None)
    if build is not None:
        fast_math = climb.kernel.plan.compile.fast_math

        def beside() -> None:
            with contextlib.suppress(Exception):  # it is built again where it first runs, and says so there
                build(climb.kernel.source, macros, "check", fast_math=fast_math)

        climb.building = threading.Thread(target=beside, daemon=True)
        climb.building.start()


def _macros(climb: Climb, dims: dict[str, int]) -> dict[str, int] | PlanFault:
    program = program_for(climb, dims, {})
    return program if isinstance(program, PlanFault) else dict(program.macros)


def launch_config_stage(climb: Climb) -> str:
    """Launches keep the limits of the device at every size that will run."""
    sizes = [
        climb.ir.target_dims,
        *(c.dims for stage in ("tiny", "shapes") for c in climb.suite.cases(stage, tunables=climb.tunables)),
    ]
    checked = 0
    by_name = {k.name: k for k in climb.kernels}
    limits = climb.executor.device()
    for dims in sizes:
        program = program_for(climb, dims, {})
        if isinstance(program, PlanFault):
            fail(
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
                fail(
                    "launch_config", "launch_config",
                    f"{name} needs {facts.registers} x {threads} = {facts.registers * threads} registers > {limits.registers_per_block}; "
                    f"use a block of at most {most} or __launch_bounds__",
                    {"dims": dims},
                )  # fmt: skip
            shared = (facts.shared_bytes or 0) + op.shared_bytes  # type: ignore[union-attr]
            if shared > limits.shared_bytes_optin:
                fail(
                    "launch_config", "launch_config",
                    f"{name} uses {facts.shared_bytes} bytes of static and {op.shared_bytes} of dynamic shared memory = {shared}; "  # type: ignore[union-attr]
                    f"a block may have {limits.shared_bytes_optin}",
                    {"dims": dims},
                )  # fmt: skip
        checked += 1
    climb.warnings += _beyond_grids(climb)
    return f"{checked} sets of sizes within the limits"


def _beyond_grids(climb: Climb) -> list[str]:
    """Return at which stated maximum the plan cannot be launched: sizes that large are not run, only reckoned with."""
    least = {d.name: d.value if d.fixed else max(d.min, d.multiple_of) for d in climb.ir.dims}
    found = []
    for dim in climb.ir.dims:
        if dim.fixed or dim.max is None:
            continue
        most = dim.max // dim.multiple_of * dim.multiple_of
        options = [{**others, dim.name: most} for others in (least, climb.ir.target_dims)]
        sizes = next((s for s in options if climb.ir.admits(s)), None)
        program = program_for(climb, sizes, {}) if sizes is not None else None
        if isinstance(program, PlanFault) and program.class_ == "launch_config":
            found.append(f"with {dim.name} at its max {most} the plan cannot be launched: {program.message}")
    return found


def tiny_stage(climb: Climb) -> str:
    """Small sizes on the CPU executor in check mode, and larger ones for what the small ones do not reach."""
    if climb.checker is None:
        return "not measured: the CPU executor is not available here (no g++)"
    cases = climb.suite.cases("tiny", tunables=climb.tunables)
    ahead = foreseen(climb, cases)
    if climb.building is not None:
        climb.building.join(max(0.0, climb.deadline - time.monotonic()))
    with started(climb, [*map(Planned, cases), *ahead], climb.checker) as ask:
        detail = run_cases(
            climb, "tiny", cases, climb.checker, "check", ask=ask, then=lambda group: _begin(climb, group)
        )
        covered = climb.covered
        further = explore(climb, climb.checker, cases, ahead, ask)
    lines = sorted({line for line, _ in climb.unreached})
    climb.covered = {
        **covered,
        "cases": climb.covered["cases"],
        **({"lines_not_reached": lines[:64]} if lines else {}),
    }
    return detail + further


def _begin(climb: Climb, right: Sequence[Case]) -> None:
    """Once cases with elements are right, have a GPU run what later stages will ask of it, while the CPU is at its own."""
    takes = getattr(climb.executor, "runs_ahead", False)
    if climb.ahead is not None or not takes or not any(elements(climb.ir, c.dims) for c in right):
        return
    climb.ahead = Ahead()
    target = climb.suite.cases("target", target=climb.ir.target_dims)
    small = 8 * elements(climb.ir, climb.ir.target_dims) <= _AHEAD_BYTES
    run_ahead(climb, "shapes", climb.suite.cases("shapes", tunables=climb.tunables))
    run_ahead(climb, "values", climb.suite.cases("values", tunables=climb.tunables))
    if small:
        run_ahead(climb, "target", target)
        run_ahead(climb, "target", _equal_values(climb, target[0]))
    calls = repeated(climb)
    run_ahead(climb, "repeat", calls, poison=FIRST)
    run_ahead(climb, "repeat", tuple(reversed(calls)), poison=AGAIN, fresh=True)


def shapes_stage(climb: Climb) -> str:
    """Sizes that find mistakes of bounds."""
    cases = climb.suite.cases("shapes", tunables=climb.tunables)
    kept = [c for c in cases if climb.executor.name != "cpu" or bearable_size(climb, c.dims)]
    note = f"; {len(cases) - len(kept)} long size(s) left to a GPU" if len(kept) < len(cases) else ""
    detail = run_cases(climb, "shapes", kept, climb.executor, "plain") + note
    return detail + _beyond_limits(climb, kept[-1]) + _on_other_devices(climb, kept)


def _beyond_limits(climb: Climb, like: Case) -> str:
    """Run sizes beyond what the plan may take for a limit; those that a CPU or the reference does not bear are left."""
    until = min(climb.deadline, time.monotonic() + _BEYOND_S)
    covered, ran, left_out = climb.covered, 0, 0
    for sizes in beyond(climb.kernel, climb.ir, budget=LONG_WORK):
        cpu = climb.executor.name == "cpu"
        if cpu and sizes in climb.checked:
            continue
        name = f"beyond-{'x'.join(map(str, sizes.values()))}"
        case = like.model_copy(update={"id": name, "dims": sizes, "seed": like.seed + 104_729})
        left = until - time.monotonic()
        too_long = left <= 0 or (cpu and not bearable_size(climb, sizes))
        if too_long or isinstance(climb.suite.answers([case], deadline_s=left), ReferenceFault):
            left_out += 1
            continue
        try:
            run_cases(climb, "shapes", [case], climb.executor, "plain", limit_s=max(left, 1.0))
        except Ending as end:
            if end.failure.is_candidates and end.failure.class_ not in {"timeout", "resources"}:
                raise
            left_out += 1
        else:
            ran += 1
    climb.covered = {**covered, "cases": covered.get("cases", 0) + ran}
    told = f"; {ran} beyond limits of the plan" if ran else ""
    return told + (
        f"; {left_out} size(s) beyond limits of the plan took too long and were left" if left_out else ""
    )


def _on_other_devices(climb: Climb, cases: list[Case]) -> str:
    """Run the largest sizes as on devices of other sizes, where the plan asks for the device's and a CPU has none."""
    if climb.executor.name != "cpu" or "num_sms" not in climb.kernel.plan.model_dump_json():
        return ""
    covered = climb.covered
    for num_sms in _OTHER_SMS:
        run_cases(climb, "shapes", cases[-2:], climb.executor, "plain", num_sms=num_sms)
    climb.covered = covered
    return f"; also with {' and '.join(map(str, _OTHER_SMS))} multiprocessors"


def values_stage(climb: Climb) -> str:
    """Regimes of values that find mistakes of numerics, and the properties that must hold of any."""
    outputs: dict[str, dict[str, Array]] = {}
    cases = climb.suite.cases("values", tunables=climb.tunables)
    detail = run_cases(climb, "values", cases, climb.executor, "plain", keep=outputs)
    return detail + check_properties(climb, outputs)


def target_stage(climb: Climb) -> str:
    """The size that is timed, reduced where a CPU cannot bear it."""
    if climb.executor.name != "cpu":
        return _target_on_device(climb)
    budget = max(2.0, min(CPU_TARGET_S, (climb.deadline - time.monotonic()) / 2))
    dims = bearable_target(climb, budget)
    for left in (2, 1, 0):
        climb.scaled = {n: v for n, v in dims.items() if v != climb.ir.target_dims[n]} or None
        note = "; reduced to what this CPU bears" if climb.scaled else ""
        cases = climb.suite.cases("target", target=dims)
        try:
            detail = run_cases(climb, "target", cases, climb.executor, "plain") + note
            return detail + _of_equal_values(climb, cases[0])
        except Ending as end:
            smaller = climb.suite.scaled_target(max(work(climb.ir, dims) // 8, 100_000))
            # A slow CPU and little memory are not the kernel's fault: only a size that must be quick convicts it.
            if end.failure.class_ not in {"timeout", "resources"} or not left or smaller == dims:
                raise
            dims = smaller
    msg = "the last try returns or raises"
    raise StateError(msg)


def _of_equal_values(climb: Climb, case: Case) -> str:
    """Run the target once more with equal values, where that is cheap: one bin gets all, a narrow counter overflows."""
    equal = _equal_values(climb, case)
    if not equal:
        return ""
    run_cases(climb, "target", equal, climb.executor, "plain")
    return "; also of equal values"


def _equal_values(climb: Climb, case: Case) -> list[Case]:
    regimes = {c.regime for c in climb.suite.cases("values", tunables=climb.tunables)}
    if "equal" not in regimes or work(climb.ir, case.dims) > _EQUAL_WORK:
        return []
    return [case.model_copy(update={"id": f"{case.id}-equal", "regime": "equal"})]


def _target_on_device(climb: Climb) -> str:
    """Run the target, or as much of it as memory holds: which part is told by the numbers of the device or reference.

    Where they are unknown (the reference ran out of the host's memory) a quarter is tried, and a quarter of that.
    """
    full = dims = climb.ir.target_dims
    for left in (2, 1, 0):
        climb.scaled = {n: v for n, v in dims.items() if v != full[n]} or None
        note = "; reduced to what memory holds" if climb.scaled else ""
        cases = climb.suite.cases("target", target=dims)
        try:
            detail = run_cases(climb, "target", cases, climb.executor, "plain") + note
            return detail + _of_equal_values(climb, cases[0])
        except Ending as end:
            needed, usable = (end.failure.evidence.get(f"{n}_bytes") for n in ("needed", "usable"))
            share = 0.8 * usable / needed if needed and usable else 0.25
            smaller = climb.suite.scaled_target(int(work(climb.ir, dims) * share))
            if end.failure.class_ != "resources" or not left or smaller == dims:
                raise
            dims = smaller
    msg = "the last try returns or raises"
    raise StateError(msg)
