"""The Coder: device code and a launch plan from the IR, repaired by typed feedback.

It sees the IR, target facts, its own kernels and their verdicts; never data, references or expected values
beyond the single element that a verdict quotes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from langgraph.runtime import Runtime
from pydantic import ValidationError

from cuda_harness.agents.ask import ReplyKey, ask, render, shown_ir, shown_set
from cuda_harness.agents.context import RunContext
from cuda_harness.agents.gate import Repeated, check_kernel, design_sha256, launched
from cuda_harness.agents.reply import Reply, ReplyFault, not_applicable, pick_json, pick_kernel
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.budget import Stop
from cuda_harness.state.errors import ReplyInvalid, StateError
from cuda_harness.state.harness import BranchCoderView, CoderView, StateUpdate, node
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.lineage import correctness_step, design_of, latest
from cuda_harness.state.results import Timing
from cuda_harness.state.rounds import BranchEnd
from cuda_harness.state.serde import clipped, describe
from cuda_harness.state.targets import facts_of

if TYPE_CHECKING:
    from cuda_harness.agents.context import Services

_QUOTED_LINES = 12
"""Source lines quoted beside compiler messages."""
_EVIDENCE = 8
"""Figures of a profile that an idea is given with."""


MAIN = "main"
"""Branch of the kernels before the first round."""
_PLAN_KEYS = ("schema", "steps", "tunables", "scratch", "defines")


class NotApplicable(Exception):  # noqa: N818 - an answer, not an error
    """The author says that the idea of a branch does not apply to its parent."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Task:
    """What kind of kernel is wanted next."""

    action: Literal["write", "repair", "redesign", "branch"]
    parent: Attempt | None
    strategy: str
    branch: str = MAIN
    idea: str = ""
    expectation: str = ""
    skills: tuple[str, ...] = ()

    @property
    def may_decline(self) -> bool:
        """Whether the author may say that the idea does not apply, or give it up after a failure."""
        return self.branch != MAIN


@dataclass(frozen=True)
class Desk:
    """What the Coder writes from: the same for the run and for a branch."""

    ir: KernelIR
    target: str
    attempts: Mapping[int, Attempt]
    earlier: Mapping[int, str]
    """Designs that were written before, by attempt."""
    tried: tuple[str, ...] = ()
    """Ideas of earlier rounds and what became of them."""


@node
def write_kernel(state: CoderView, runtime: Runtime[RunContext]) -> StateUpdate:
    """Return one new attempt: a kernel, or the record of a reply that held none."""
    services = runtime.context.services(state.run_dir)
    if state.ir is None:
        msg = "the coder was reached without an IR"
        raise StateError(msg)
    task = next_task(state, _first_skills(state.ir, services))
    if task is None:
        return {"stop": Stop(reason="no_correct_kernel", detail="the correctness budget is spent")}
    number = max(state.attempts, default=0) + 1
    desk = Desk(state.ir, state.target, state.attempts, _designs(state.attempts, services))
    return {"attempts": {number: _write(desk, task, number, services)}}


@node
def write_branch_kernel(state: BranchCoderView, runtime: Runtime[RunContext]) -> StateUpdate:
    """Return one new attempt of a branch: its idea on the parent, or the repair of what it wrote before."""
    services = runtime.context.services(state.run_dir)
    plan = state.plan
    if state.ir is None or plan.parent not in state.attempts:
        msg = f"branch {plan.name!r} was started without an IR or a parent"
        raise StateError(msg)
    number = max(plan.first, max(state.attempts) + 1)
    if not plan.owns(number):
        msg = f"branch {plan.name!r} has no attempt left to write"
        raise StateError(msg)
    last = state.attempts[max(state.attempts)]
    if any(plan.owns(a.id) and a.sha256 is not None for a in state.attempts.values()):
        task = Task("repair", last, "repair", plan.name)
    else:
        parent = state.attempts[plan.parent]
        task = Task("branch", parent, plan.strategy, plan.name, plan.idea, plan.expectation, plan.skills)
    earlier = {**state.known, **_designs(state.attempts, services)}
    desk = Desk(state.ir, state.target, state.attempts, earlier, state.tried)
    try:
        return {"attempts": {number: _write(desk, task, number, services)}}
    except NotApplicable as said:
        services.emit("branch_ended", branch=plan.name, reason="not_applicable", detail=said.reason[:500])
        return {"ended": {plan.name: BranchEnd(reason="not_applicable", detail=said.reason)}}


def _first_skills(ir: KernelIR, services: "Services") -> tuple[str, ...]:
    """Return the two notes that fit the problem itself, for a first kernel."""
    from cuda_harness.tools.evolve.skills import first_evidence, pick_skills

    prompts = services.prompts
    return pick_skills(first_evidence(ir), [prompts.skill(name) for name in prompts.skills()])


def _designs(attempts: Mapping[int, Attempt], services: "Services") -> dict[int, str]:
    return {
        a.id: a.design or design_sha256(services.folder.load_kernel(a.id))
        for a in attempts.values()
        if a.sha256 is not None
    }


def _write(desk: Desk, task: Task, attempt: int, services: "Services") -> Attempt:
    """Return the attempt that the model's answer makes, its files written."""
    prompt = render(services, "roles/coder", **_values(desk, task, services))
    folder = services.folder.attempt_dir(attempt)
    services.folder.write_text(f"{folder}/prompt.md", f"{prompt.system}\n---\n\n{prompt.human}")
    replies: list[Reply] = []

    repeated: list[int | None] = []

    def parse(reply: Reply) -> Kernel:
        replies.append(reply)
        repeated.append(None)
        declined = not_applicable(reply, _PLAN_KEYS) if task.may_decline else ""
        if declined:
            raise NotApplicable(declined)
        try:
            return parse_kernel(reply, desk.ir, desk.earlier)
        except Repeated as fault:
            repeated[-1] = fault.attempt
            raise

    record = Attempt(
        id=attempt,
        parent=task.parent.id if task.parent else None,
        branch=task.branch,
        strategy=task.strategy,
        expectation=task.expectation if task.action == "branch" else "",
    )
    try:
        kernel = ask(services, "coder", prompt, parse, key=ReplyKey("coder", task.branch, attempt))
    except ReplyInvalid as exc:
        again = repeated[-1] if repeated else None
        record = record.model_copy(update={"unusable": exc.message[:4_000], "duplicate_of": again})
        services.emit("kernel_missing", attempt=attempt, reason=exc.message[:300])
    else:
        services.folder.save_kernel(attempt, kernel)
        record = record.model_copy(update={"sha256": kernel.sha256, "design": design_sha256(kernel)})
        services.emit(
            "kernel_written", attempt=attempt, strategy=task.strategy, branch=task.branch,
            lines=kernel.source.count("\n"),
        )  # fmt: skip
    finally:
        if replies:
            services.folder.write_text(f"{folder}/reply.md", replies[-1].text)
    return record


def next_task(state: CoderView, skills: tuple[str, ...] = ()) -> Task | None:
    """Return what to write next in the run itself, `None` when the correctness budget is spent.

    A failing kernel is repaired before anything else; a verified one is only improved in branches.
    """
    last = latest(state.attempts)
    if last is None:
        return Task("write", None, "first", skills=skills)
    if last.status == "verified":
        msg = "the coder was reached after a verified kernel, which only branches improve"
        raise StateError(msg)
    step = correctness_step(state.attempts, state.budget)
    if step == "give_up":
        return None
    if step == "redesign":
        return Task("redesign", None, "redesign", last.branch)
    return Task("repair", last, "repair", last.branch)


def parse_kernel(reply: Reply, ir: KernelIR | None, earlier: Mapping[int, str]) -> Kernel:
    """Return the kernel in a reply that passes the quick gate.

    Raises:
        ReplyFault: Says what is missing or does not fit together.
        ModelRefused: If the model says that it cannot be done.
    """
    data = pick_json(reply, _PLAN_KEYS)
    try:
        plan = LaunchPlan.model_validate(data)
    except ValidationError as exc:
        msg = "plan.json is not a valid plan:\n" + describe(exc)
        raise ReplyFault(msg) from exc
    source = pick_kernel(reply.blocks, launched(plan))
    try:
        kernel = Kernel(source=source, plan=plan)
    except ValidationError as exc:
        msg = "kernel.cu is too long"
        raise ReplyFault(msg) from exc
    if ir is not None:
        check_kernel(kernel, ir, earlier)
    return kernel


# ------------------------------------------------------------------------------- what the prompt shows


def _values(desk: Desk, task: Task, services: "Services") -> dict[str, Any]:
    from cuda_harness.tools.execute.cpu.known import known_device_code

    last = latest(desk.attempts)
    shown = _last_kernel(desk, task, services)
    failure = None
    advice = ""
    if last is not None and task.action in {"repair", "redesign"}:
        failure = failure_of(_judged(desk.attempts, last), shown)
        if last.sha256 is None:
            failure["last_reply"] = f"held no new kernel: {last.unusable}"
        fragment = f"fragments/faults/{failure['class']}"
        advice = services.prompts.text(fragment).strip() if services.prompts.has(fragment) else ""
    return {
        "target": facts_of(desk.target),
        "ir": shown_ir(desk.ir, without=("assumptions",)),
        "known": known_device_code(),
        "last_kernel": shown.source if shown else None,
        "last_plan": shown_set(shown.plan) if shown else None,
        "failure": failure,
        "measured": measured_lines(task.parent) if task.action == "branch" else [],
        "history": [*desk.tried, *(history_line(a) for a in desk.attempts.values())],
        "skills": [services.prompts.skill(name).text for name in task.skills],
        "advice": advice,
        "action": task.action,
        "may_decline": task.may_decline,
        "idea": f"{task.strategy}: {task.idea}" if task.action == "branch" else "",
    }


def _last_kernel(desk: Desk, task: Task, services: "Services") -> Kernel | None:
    """Return the kernel to mend or to build on: the parent's, or the one before an unusable reply."""
    if task.parent is None:
        return None
    for attempt in reversed(design_of(desk.attempts, task.parent)):
        if attempt.sha256 is not None:
            return services.folder.load_kernel(attempt.id)
    return None


def _judged(attempts: Mapping[int, Attempt], last: Attempt) -> Attempt:
    """Return the newest attempt of the design that was judged; the newest of all where none was."""
    chain = design_of(attempts, last)
    return next((a for a in reversed(chain) if a.verdict is not None), last)


def failure_of(attempt: Attempt, kernel: Kernel | None) -> dict[str, Any]:
    """Return why an attempt is not verified, with the source lines that the evidence names."""
    failure = attempt.verdict.failure if attempt.verdict else None
    if failure is None:
        told = attempt.unusable or "the kernel was not proved; no stage failed"
        return {"stage": "parse", "class": "unusable", "message": told, "evidence": {}}
    shown = failure.model_dump(mode="json", by_alias=True)
    if kernel is not None:
        lines = kernel.source.splitlines()
        numbers = sorted({n for n in _line_numbers(failure.evidence) if 1 <= n <= len(lines)})[:_QUOTED_LINES]
        if numbers:
            shown["source_lines"] = {str(n): lines[n - 1].rstrip()[:200] for n in numbers}
    return shown


def _line_numbers(value: Any, name: str = "") -> Iterator[int]:  # noqa: ANN401 - evidence is any JSON
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _line_numbers(item, str(key))
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _line_numbers(item, name)
    elif (
        isinstance(value, int)
        and not isinstance(value, bool)
        and (name in {"line", "lines"} or name.endswith("_line"))
    ):
        yield value


def measured_lines(parent: Attempt | None) -> list[str]:
    """Return what is known of the speed of the kernel that an idea starts from: its time, what bounds it, on which evidence."""
    if parent is None:
        return []
    timing, profile = parent.timing, parent.profile
    found = []
    if isinstance(timing, Timing):
        floor = f"; {timing.sol_fraction:.0%} of what the device allows" if timing.sol_fraction else ""
        found.append(f"{timing.median_us:.2f} us at the target size, caches cold{floor}")
    if profile is not None:
        found += [
            " ".join(profile.sentence.split())[:300],
            *(" ".join(e.split())[:200] for e in profile.evidence[:_EVIDENCE]),
        ]
    return found


def history_line(attempt: Attempt) -> str:
    """Return one line about an attempt: what was tried, how it ended."""
    head = f"{attempt.id} {attempt.strategy}"
    if attempt.expectation:
        head += f" ({clipped(attempt.expectation, 160)})"
    failure = attempt.verdict.failure if attempt.verdict else None
    if attempt.status == "unusable":
        return f"{head}: no usable kernel: {clipped(attempt.unusable, 240)}"
    if failure is not None:
        return (
            f"{head}: {attempt.status}, {failure.class_} at {failure.stage}: {clipped(failure.message, 300)}"
        )
    if attempt.median_us is not None:
        return f"{head}: {attempt.status}, {attempt.median_us:.2f} us"
    return f"{head}: {attempt.status}"
