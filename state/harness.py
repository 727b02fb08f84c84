"""The one typed state of a run, the view each role gets of it, and the check of what a node returns.

Isolation is by type: a node's input schema names only the channels its role may see.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, ParamSpec

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from cuda_harness.state.attempt import Attempt, merge_attempts
from cuda_harness.state.budget import Budget, Spend, Stop
from cuda_harness.state.errors import StateError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import Short
from cuda_harness.state.rounds import BranchEnd, BranchPlan, Round, merge_ends, merge_rounds
from cuda_harness.state.serde import Model, describe
from cuda_harness.state.suite import SuiteSummary


class Decision(Model):
    """What the Evolver wants next."""

    action: Literal["write", "repair", "redesign", "branch", "stop"]
    parent: int | None = None
    strategy: str = "first"
    expectation: Short = ""
    branch: str = "main"
    round: int = 0
    branches: tuple[BranchPlan, ...] = ()
    """With `branch`: what to try, each with attempt ids of its own."""


class Result(BaseModel):
    """The end of a run as the state holds it: `result.json` by content."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    status: Literal["verified", "unverified", "failed", "question"]
    """`question`: the run waits for an answer."""
    best: int | None = None
    """Attempt whose kernel is delivered."""
    run_dir: str
    document: dict[str, Any] = Field(default_factory=dict)


class HarnessState(BaseModel):
    """All channels of the graph; small by rule: sources, logs and arrays are files of the run."""

    model_config = ConfigDict(extra="forbid")

    request: str = ""
    run_id: str = ""
    run_dir: str = ""
    target: str = ""
    budget: Budget = Budget()
    ask: bool = False
    """Whether assumptions are put to the user; false again once they were."""
    facts: tuple[str, ...] = ()
    """What the user stated in answer to a question."""
    ir: KernelIR | None = None
    suite: SuiteSummary | None = None
    attempts: Annotated[dict[int, Attempt], merge_attempts] = Field(default_factory=dict)
    decision: Decision | None = None
    rounds: Annotated[dict[int, Round], merge_rounds] = Field(default_factory=dict)
    ended: Annotated[dict[str, BranchEnd], merge_ends] = Field(default_factory=dict)
    spend: Spend = Spend()
    stop: Stop | None = None
    result: Result | None = None


class QuestionView(BaseModel):
    """What is put to the user."""

    request: str
    run_dir: str = ""
    ir: KernelIR | None = None


class PlannerView(BaseModel):
    """The words and the machine."""

    request: str
    facts: tuple[str, ...] = ()
    run_id: str = ""
    run_dir: str = ""
    target: str = ""
    ir: KernelIR | None = None


class SynthesizerView(BaseModel):
    """Request and IR, never a kernel."""

    request: str
    run_dir: str = ""
    ir: KernelIR | None = None


class CoderView(BaseModel):
    """IR, decision and its own attempts with their verdicts; no data, no reference, no expected values."""

    run_dir: str = ""
    target: str = ""
    budget: Budget = Budget()
    ir: KernelIR | None = None
    attempts: dict[int, Attempt] = Field(default_factory=dict)
    decision: Decision | None = None


class BranchState(BaseModel):
    """All channels of one branch: its idea, its parent and its own attempts, nothing of its siblings."""

    model_config = ConfigDict(extra="forbid")

    plan: BranchPlan
    run_dir: str = ""
    target: str = ""
    budget: Budget = Budget()
    ir: KernelIR | None = None
    suite: SuiteSummary | None = None
    known: dict[int, str] = Field(default_factory=dict)
    """Designs that were tried before this round, by attempt: none is built twice."""
    tried: tuple[str, ...] = ()
    """Ideas of earlier rounds and what became of them, one line each."""
    attempts: Annotated[dict[int, Attempt], merge_attempts] = Field(default_factory=dict)
    ended: Annotated[dict[str, BranchEnd], merge_ends] = Field(default_factory=dict)

    @property
    def own(self) -> dict[int, Attempt]:
        """The attempts of this branch, without its parent."""
        return {i: a for i, a in self.attempts.items() if self.plan.owns(i)}


class BranchOutput(BaseModel):
    """What a branch hands back to the run."""

    attempts: Annotated[dict[int, Attempt], merge_attempts] = Field(default_factory=dict)
    ended: Annotated[dict[str, BranchEnd], merge_ends] = Field(default_factory=dict)


class BranchCoderView(BaseModel):
    """What a Coder sees in a branch: the idea, the parent and its own attempts; no data, no reference."""

    plan: BranchPlan
    run_dir: str = ""
    target: str = ""
    budget: Budget = Budget()
    ir: KernelIR | None = None
    known: dict[int, str] = Field(default_factory=dict)
    tried: tuple[str, ...] = ()
    attempts: dict[int, Attempt] = Field(default_factory=dict)


class VerifierView(BaseModel):
    """The kernel to judge, the IR and the suite that judges."""

    run_dir: str = ""
    target: str = ""
    ir: KernelIR | None = None
    suite: SuiteSummary | None = None
    attempts: dict[int, Attempt] = Field(default_factory=dict)


class TunerView(BaseModel):
    """The verified kernel whose tunables are searched, the IR and the suite."""

    run_dir: str = ""
    target: str = ""
    ir: KernelIR | None = None
    suite: SuiteSummary | None = None
    attempts: dict[int, Attempt] = Field(default_factory=dict)


class BranchTunerView(TunerView):
    """The same in a branch."""

    plan: BranchPlan


class ProfilerView(BaseModel):
    """Verified kernels."""

    run_dir: str = ""
    target: str = ""
    ir: KernelIR | None = None
    attempts: dict[int, Attempt] = Field(default_factory=dict)


class BranchVerifierView(VerifierView):
    """The same in a branch."""

    plan: BranchPlan


class BranchProfilerView(ProfilerView):
    """The same in a branch."""

    plan: BranchPlan


class EvolverView(BaseModel):
    """Attempts, verdicts, profiles and what was spent."""

    run_dir: str = ""
    target: str = ""
    budget: Budget = Budget()
    ir: KernelIR | None = None
    suite: SuiteSummary | None = None
    attempts: dict[int, Attempt] = Field(default_factory=dict)
    decision: Decision | None = None
    rounds: dict[int, Round] = Field(default_factory=dict)
    ended: dict[str, BranchEnd] = Field(default_factory=dict)
    stop: Stop | None = None


class StateUpdate(TypedDict, total=False):
    """What a node may return: a few channels, never the whole state."""

    request: str
    run_id: str
    run_dir: str
    target: str
    budget: Budget
    ask: bool
    facts: tuple[str, ...]
    ir: KernelIR | None
    suite: SuiteSummary | None
    attempts: dict[int, Attempt]
    decision: Decision | None
    rounds: dict[int, Round]
    ended: dict[str, BranchEnd]
    spend: Spend
    stop: Stop | None
    result: Result | None


P = ParamSpec("P")
_UPDATE: TypeAdapter[StateUpdate] | None = None


def check_update(update: Mapping[str, Any]) -> StateUpdate:
    """Return `update` if every channel exists and holds its own type.

    LangGraph (1.2) drops unknown channels silently and meets a wrong type only in the next node, so each node's
    return passes here.

    Raises:
        StateError: Names the channel; a bug of ours.
    """
    global _UPDATE  # noqa: PLW0603 - built on first use, for the start-up time
    unknown = sorted(set(update) - set(StateUpdate.__annotations__))
    if unknown:
        msg = f"a node returned unknown channels {unknown}; known: {sorted(StateUpdate.__annotations__)}"
        raise StateError(msg)
    if _UPDATE is None:
        _UPDATE = TypeAdapter(StateUpdate)
    try:
        return _UPDATE.validate_python(dict(update), strict=True)
    except ValidationError as exc:
        msg = "a node returned a wrong value:\n" + describe(exc)
        raise StateError(msg) from exc


def node(function: Callable[P, StateUpdate]) -> Callable[P, StateUpdate]:
    """Decorate a node function so that its update is checked before LangGraph sees it."""

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> StateUpdate:
        return check_update(function(*args, **kwargs))

    return checked
