"""The target's size on a CPU: in full when tiny runs say that it ends in time, else as much of it as does."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from cuda_harness.state.ir import KernelIR
from cuda_harness.tools.execute.protocol import JobOk, LaunchOp, Op, WhileOp
from cuda_harness.tools.ir.program import PlanFault
from cuda_harness.tools.synthesize.shapes import admitted, elements, work
from cuda_harness.tools.verify.climb import Climb, job_for, program_for

CPU_TARGET_S = 20.0
"""Wall seconds the target stage may take on the CPU executor before its sizes are reduced."""
CPU_PROBE_WORK = 20_000_000
"""Work that the CPU executor does in well under a second; larger targets are estimated first."""
CPU_TARGET_BYTES = 4 << 30
"""Most bytes of float64 copies of a target's buffers."""
CPU_LONG_THREADS = 3_000_000
"""Most threads of a plan that a CPU runs for one set of sizes beyond 15 bits."""
_TINY_WORK = 1_000_000
_TINY_SHARE = 64
"""How much less work than the target the smallest tiny run does, at least."""
_RAISES = (8, 4, 2)
_MOST_CALLS = 12
_STRIDE = 512
"""Most growth of work from one measured run to the next."""
_MARGIN = 2.0
"""By how much a run may take longer than estimated: caches, other work on the machine."""
_CLOCK_S = 3e-4
"""Error of a call's mean time: processor time is counted in steps of milliseconds on some machines."""
_MEASURABLE_S = 10e-3
"""Processor seconds of all calls below which a tiny run says too little."""
Sizes = dict[str, int]


@dataclass(frozen=True)
class Measured:
    """One run of the plan: what there was to do, and what a call of it took."""

    work: int
    threads: int
    calls: int
    cpu_s: float
    """Processor seconds of a call after the first."""
    start_s: float
    """What the first call took longer."""
    wall_per_cpu: float
    """Below 1 where cores share the work, above where the machine is busy."""


def estimated_cpu_s(runs: Sequence[Measured], work: int, threads: int) -> float:
    """Return the processor seconds of one call that does `work` with `threads`, judged by smaller runs.

    A call costs so much a thread and so much a unit of work, neither negative; both are fitted to the runs by least
    squares of relative errors (non-negative, over the four choices of terms). Where the runs cannot tell threads from
    work, each gets its share.
    """
    features = np.array([[r.work, r.threads] for r in runs], float)
    seconds = np.array([r.cpu_s for r in runs])
    scale = features.max(axis=0)
    weights = 1.0 / (0.1 * seconds + _CLOCK_S)
    rows = np.vstack([features / scale * weights[:, None], 1e-3 * weights.min() * np.eye(2)])
    wanted = np.append(seconds * weights, [0.0, 0.0])
    best, least = np.zeros(2), float(wanted @ wanted)
    for terms in (list(c) for n in (1, 2) for c in combinations(range(2), n)):
        found = np.linalg.lstsq(rows[:, terms], wanted, rcond=None)[0]
        missed = rows[:, terms] @ found - wanted
        if (found >= 0).all() and float(missed @ missed) < least:
            best, least = np.zeros(2), float(missed @ missed)
            best[terms] = found
    return float(best / scale @ [work, threads]) + max(r.start_s for r in runs)


def tiny_sizes(ir: KernelIR, base: Sizes, most_work: int) -> list[Sizes]:
    """Return sizes to measure: `base`, and it with each free dim raised, so that the dims' shares can be told apart."""
    found = [base]
    for dim in ir.dims:
        for factor in () if dim.fixed else _RAISES:
            raised = {**base, dim.name: min(ir.target_dims[dim.name], base[dim.name] * factor)}
            if raised not in found and work(ir, raised) <= most_work and admitted(ir, raised):
                found.append(raised)
                break
    return found


def measure(climb: Climb, dims: Sizes, *, calls: int, deadline_s: float) -> Measured | None:
    """Run the plan at these sizes; `None`: it does not run, or the sizes are not for this machine."""
    program = program_for(climb, dims, {})
    if isinstance(program, PlanFault) or 8 * sum(b.count for b in program.buffers) > CPU_TARGET_BYTES:
        return None
    inputs = climb.suite.inputs(climb.suite.cases("target", target=dims)[0])
    done = climb.executor.run(job_for(climb, program, (inputs,) * calls, "plain", deadline_s=deadline_s))
    if not isinstance(done, JobOk):
        return None
    each = done.cpu_seconds or (done.seconds / calls,) * calls
    cpu_s = sum(each[1:]) / (calls - 1) if calls > 1 else each[0]
    return Measured(
        work=work(climb.ir, dims), threads=_threads(program.ops), calls=calls, cpu_s=cpu_s, start_s=max(0.0, each[0] - cpu_s),
        wall_per_cpu=done.seconds / sum(each) if sum(each) > _CLOCK_S else 1.0,
    )  # fmt: skip


def tiny_runs(climb: Climb, deadline_s: float) -> list[Measured] | Sizes:
    """Return measured runs far below the target, or the first sizes that do not run."""
    most = max(1, work(climb.ir, climb.ir.target_dims) // _TINY_SHARE)
    share = min(most, _TINY_WORK)
    base = climb.suite.scaled_target(share)
    run = _tiny_run(climb, base, deadline_s)
    while run is not None and share < most and run.cpu_s * run.calls < _MEASURABLE_S:
        share = min(most, 4 * share)
        base = climb.suite.scaled_target(share)
        run = _tiny_run(climb, base, deadline_s)
    if run is None:
        return base
    runs = [run]
    for dims in tiny_sizes(climb.ir, base, min(_TINY_SHARE // 4 * most, 8 * share))[1:]:
        run = _tiny_run(climb, dims, deadline_s)
        if run is None:
            return dims
        runs.append(run)
    return runs


def _tiny_run(climb: Climb, dims: Sizes, deadline_s: float) -> Measured | None:
    calls = max(2, min(_MOST_CALLS, 4 * _TINY_WORK // max(1, work(climb.ir, dims))))
    return measure(climb, dims, calls=calls, deadline_s=deadline_s)


def estimated_s(climb: Climb, runs: Sequence[Measured], dims: Sizes) -> float | None:
    """Return the wall seconds of one call at these sizes; `None` where the plan is not possible there."""
    program = program_for(climb, dims, {})
    if isinstance(program, PlanFault):
        return None
    largest = max(runs, key=lambda r: r.cpu_s)
    return estimated_cpu_s(runs, work(climb.ir, dims), _threads(program.ops)) * largest.wall_per_cpu


def bearable_target(climb: Climb, budget_s: float) -> Sizes:
    """Return the target's sizes if the CPU executor is expected to bear them within the budget, else the largest so.

    Estimated from tiny runs; what lies far beyond them is approached by runs in between.
    """
    full = climb.ir.target_dims
    if climb.suite.scaled_target(CPU_PROBE_WORK) == full:
        return full
    runs = tiny_runs(climb, budget_s)
    while isinstance(runs, list):
        done = max(r.work for r in runs)
        dims = _affordable(climb, runs, budget_s)
        if work(climb.ir, dims) > _STRIDE * done:
            dims = climb.suite.scaled_target(_STRIDE * done)
        elif dims == full:
            return full
        if work(climb.ir, dims) < 2 * done:
            return dims
        # A larger run knows better, also how much the cores share.
        run = measure(climb, dims, calls=1, deadline_s=budget_s)
        if run is None:
            return dims
        runs.append(run)
    return runs  # the stage runs these sizes again, and says what is wrong


def _affordable(climb: Climb, runs: Sequence[Measured], budget_s: float) -> Sizes:
    dims = climb.ir.target_dims
    while True:
        expected_s = estimated_s(climb, runs, dims)
        small = 8 * elements(climb.ir, dims) <= CPU_TARGET_BYTES
        if small and (expected_s is None or expected_s * _MARGIN <= budget_s):
            return dims
        smaller = climb.suite.scaled_target(work(climb.ir, dims) // 2)
        if smaller == dims:
            return dims
        dims = smaller


def bearable_size(climb: Climb, dims: Sizes) -> bool:
    """Return whether a CPU runs the plan at these sizes in about a second; only sizes beyond 15 bits are in doubt."""
    if max(dims.values(), default=0) <= 1 << 15:
        return True
    program = program_for(climb, dims, {})
    return isinstance(program, PlanFault) or _threads(program.ops) <= CPU_LONG_THREADS


def _threads(ops: tuple[Op, ...]) -> int:
    launches = (op for op in ops if isinstance(op, LaunchOp))
    inner = (_threads(op.body) for op in ops if isinstance(op, WhileOp))
    return sum(math.prod(op.grid) * math.prod(op.block) for op in launches) + sum(inner)
