"""One kernel on its way up the ladder: what its stages share, and how one of them ends it."""

import contextlib
import re
import threading
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from cuda_harness.state.expr import ExprError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.results import (
    Failure,
    FaultClass,
    InstructionMix,
    KernelFacts,
    StageName,
    StageResult,
    Status,
)
from cuda_harness.tools.execute.protocol import (
    ORDERS,
    Executor,
    Job,
    Mode,
    Program,
)
from cuda_harness.tools.ir.placement import expand_on
from cuda_harness.tools.ir.program import PlanFault, expand
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.toolchain.directives import Remark
from cuda_harness.tools.toolchain.nvrtc import Compiler
from cuda_harness.tools.toolchain.source import SourceFacts
from cuda_harness.tools.verify.ahead import Ahead
from cuda_harness.tools.verify.policy import launches


class Ending(Exception):  # noqa: N818 - carries the failing stage's result out
    """A stage failed, or could not be measured though the verdict needs it."""

    def __init__(self, status: Status, failure: Failure, detail: str = "") -> None:
        super().__init__(detail)
        self.status, self.failure, self.detail = status, failure, detail


class Skipped(Exception):  # noqa: N818 - ends a stage that the verdict can do without
    """The stage could not be measured; the ladder goes on."""


@dataclass
class Climb:
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
    mixes: tuple[InstructionMix, ...] = ()
    float_atomics: tuple[Remark, ...] = ()
    """Where floats are summed by atomics; the order of threads may show in the bits."""
    scaled: dict[str, int] | None = None
    covered: dict[str, Any] = field(default_factory=dict)
    """What the stage under way has exercised."""
    places: set[tuple[int, int]] = field(default_factory=set)
    """Line and column of each basic block of the kernel that check mode knows."""
    reached: set[tuple[int, int]] = field(default_factory=set)
    """Those that ran in check mode."""

    building: threading.Thread | None = None
    """Builds the kernel for check mode while NVRTC compiles it."""
    ahead: Ahead | None = None
    """Runs of later stages on a GPU, begun while check mode is at work on the CPU."""
    checked: list[dict[str, int]] = field(default_factory=list)
    """Sizes after the tiny ones that passed in check mode."""

    @property
    def unreached(self) -> set[tuple[int, int]]:
        """What of the kernel never ran in check mode."""
        return self.places - self.reached

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


def fail(
    stage: StageName, class_: FaultClass, message: str, evidence: dict[str, Any] | None = None
) -> NoReturn:
    """End the climb: the candidate is at fault."""
    failure = Failure(stage=stage, class_=class_, message=message[:3_000], evidence=evidence or {})
    status: Status = "failed"
    raise Ending(status, failure)


def leave_unmeasured(
    stage: StageName, class_: FaultClass, message: str, evidence: dict[str, Any] | None = None
) -> NoReturn:
    """End the climb without blame: the stage could not be measured."""
    failure = Failure(stage=stage, class_=class_, message=message[:3_000], evidence=evidence or {})
    status: Status = "not_measured"
    raise Ending(status, failure)


def program_for(
    climb: Climb, dims: dict[str, int], scalars: dict[str, Any], *, num_sms: int | None = None
) -> Program | PlanFault:
    """Return the plan at these sizes and scalars, or what is wrong with it; `num_sms` replaces the device's number."""
    if num_sms is not None:
        return expand(
            climb.ir, climb.kernel.plan, dims=dims, scalars=scalars, tunables=None, kernels=tuple(climb.facts.kernels),
            device=replace(climb.executor.device(), num_sms=num_sms),
        )  # fmt: skip
    return expand_on(
        climb.executor, climb.kernel, climb.ir, dims=dims, scalars=scalars, kernels=climb.facts.kernels, arch=climb.target
    )  # fmt: skip


def _bytes_seed(climb: Climb, poison: int) -> int:
    return (climb.seed + poison * 7_777) & 0x7FFFFFFF


def with_order(climb: Climb, poison: int, order: int) -> int:
    """Return the next poison from one on with which a CPU executor starts blocks and threads in an order."""
    return next(p for p in range(poison, poison + 9) if _bytes_seed(climb, p) % ORDERS == order)


def job_for(
    climb: Climb,
    program: Program,
    calls: tuple[Any, ...],
    mode: Mode,
    *,
    deadline_s: float,
    poison: int = 0,
    fresh: bool = False,
    over: threading.Event | None = None,
) -> Job:
    """Return the job that runs a program of the candidate."""
    options = climb.kernel.plan.compile
    return Job(
        source=climb.kernel.source, program=program, calls=calls, mode=mode, poison=_bytes_seed(climb, poison),
        fast_math=options.fast_math, max_registers=options.max_registers, arch=climb.target, deadline_s=deadline_s,
        fresh_process=fresh, over=over,
    )  # fmt: skip
