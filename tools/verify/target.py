"""The target's size on a CPU: as much of it as the budget bears, by measured runs."""

import math

from cuda_harness.tools.execute.protocol import JobOk, LaunchOp, Op, WhileOp
from cuda_harness.tools.ir.program import PlanFault
from cuda_harness.tools.synthesize.shapes import elements, work
from cuda_harness.tools.verify.climb import Climb, job_for, program_for

CPU_TARGET_S = 20.0
"""Wall seconds the target stage may take on the CPU executor before its sizes are reduced."""
CPU_PROBE_WORK = 20_000_000
"""Work that the CPU executor does in well under a second; larger targets are approached by measurement."""
CPU_TARGET_BYTES = 4 << 30
"""Most bytes of float64 copies of a target's buffers."""
CPU_LONG_THREADS = 3_000_000
"""Most threads of a plan that a CPU runs for one set of sizes beyond 15 bits."""
_STRIDE = 128
"""Most growth of work from one measured run to the next."""
_SUPERLINEAR = 2.0
"""How much slower than in proportion a larger run may be once it leaves the caches."""


def bearable_target(climb: Climb, budget_s: float) -> dict[str, int]:
    """Return the largest target sizes that the CPU executor bears within the budget.

    Measured, by runs at growing sizes: time per work of a few blocks says little about a grid that leaves the caches.
    """
    full = climb.ir.target_dims
    limit, dims = CPU_PROBE_WORK, climb.suite.scaled_target(CPU_PROBE_WORK)
    while dims != full:
        cost = work(climb.ir, dims)
        program = program_for(climb, dims, {})
        if isinstance(program, PlanFault) or 8 * sum(b.count for b in program.buffers) > CPU_TARGET_BYTES:
            return dims
        case = climb.suite.cases("target", target=dims)[0]
        done = climb.executor.run(
            job_for(climb, program, (climb.suite.inputs(case),), "plain", deadline_s=budget_s)
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


def bearable_size(climb: Climb, dims: dict[str, int]) -> bool:
    """Return whether a CPU runs the plan at these sizes in about a second; only sizes beyond 15 bits are in doubt."""
    if max(dims.values(), default=0) <= 1 << 15:
        return True
    program = program_for(climb, dims, {})
    return isinstance(program, PlanFault) or _threads(program.ops) <= CPU_LONG_THREADS


def _threads(ops: tuple[Op, ...]) -> int:
    launches = (op for op in ops if isinstance(op, LaunchOp))
    inner = (_threads(op.body) for op in ops if isinstance(op, WhileOp))
    return sum(math.prod(op.grid) * math.prod(op.block) for op in launches) + sum(inner)
