"""Cases of a suite run and compared, several calls of one process at a time."""

import contextlib
import itertools
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import Failure, StageName
from cuda_harness.state.suite import Case
from cuda_harness.tools.execute.protocol import (
    Array,
    CallOutput,
    Executor,
    JobFault,
    JobNotRun,
    JobOk,
    JobResult,
    Mode,
)
from cuda_harness.tools.ir.program import PlanFault
from cuda_harness.tools.synthesize.reference import ReferenceFault
from cuda_harness.tools.synthesize.suite import Answer
from cuda_harness.tools.synthesize.truths import most_lent
from cuda_harness.tools.verify.climb import (
    Climb,
    Ending,
    Skipped,
    fail,
    job_for,
    leave_unmeasured,
    program_for,
)
from cuda_harness.tools.verify.compare import Expected, Mismatch, compare_outputs
from cuda_harness.tools.verify.properties import named

FEW = 8
"""Elements below which an output is too small to show a pattern of what is wrong."""
PLAIN_S = 20.0
"""Most wall seconds of one process in plain mode, where nothing else is said."""
AT_ONCE = max(1, min(12, len(os.sched_getaffinity(0)) * 3 // 4))
"""Runs in check mode, of one thread each, that go on side by side."""


@dataclass(frozen=True)
class Asked:
    """A group of cases that ran in one process."""

    calls: tuple[Mapping[str, Array], ...]
    """Inputs of each call."""
    done: JobResult
    left_s: float
    """Seconds that were left for judging when it began."""


Ask = Callable[[Sequence[Case]], Asked]


def expected_of(answer: Answer) -> Expected:
    """Return an answer of the suite as what a comparison expects."""
    return Expected(answer.arrays, answer.defined, answer.sensitivity, answer.slack)


def fault_of(fault: ReferenceFault) -> Failure:
    """Return a reference's fault as a failure that blames no kernel."""
    class_ = "resources" if fault.kind == "resources" else "oracle"
    evidence = {"kind": fault.kind} | ({} if class_ == "resources" else {"culprit": "reference.py"})
    return Failure(stage="shapes", class_=class_, message=fault.message, evidence=evidence)


def run_cases(
    climb: Climb, stage: StageName, cases: Sequence[Case], executor: Executor, mode: Mode, *, poison: int = 0,
    keep: dict[str, dict[str, Array]] | None = None, fresh: bool = False, limit_s: float = PLAIN_S,
    num_sms: int | None = None, ask: Ask | None = None,
    then: Callable[[Sequence[Case]], None] = lambda _group: None,
) -> str:  # fmt: skip
    """Run cases and compare them; return what was covered, in a few words.

    Args:
        climb: The kernel and its suite.
        stage: Whom a failure is put to.
        cases: Those with equal sizes and scalars side by side run in one process.
        executor: Where they run.
        mode: Plain or check.
        poison: Varies the bytes of outputs and scratch.
        keep: Receives the outputs by case.
        fresh: Run in processes that have served nobody.
        limit_s: Wall seconds for one process; stage `target` has more.
        num_sms: Multiprocessors that the plan sees; `None`: the executor's.
        ask: Answers for runs that were `started` before; `None`: each is run when its turn comes.
        then: Called with each group of cases that ran and is right.
    """
    run_group = ask or partial(
        _ask_now, climb, stage, executor=executor, mode=mode, poison=poison, fresh=fresh, limit_s=limit_s, num_sms=num_sms
    )  # fmt: skip
    cases = in_order(stage, cases)
    try:
        answers = climb.suite.answers(cases)
    except ConfigError as exc:
        leave_unmeasured(stage, "oracle", exc.message)
    if isinstance(answers, ReferenceFault):
        fault = fault_of(answers)
        leave_unmeasured(stage, fault.class_, fault.message, fault.evidence)

    def larger() -> None:
        largest = max((c for c in cases if c.id in answers), key=lambda c: math.prod(c.dims.values()))
        _judged(climb, stage, [largest], answers, executor, run_group([largest]))

    run = 0
    for group in batches([c for c in cases if c.id in answers]):
        left = climb.deadline - time.monotonic()
        if left <= 0:
            leave_unmeasured(
                stage, "resources", f"the time for judging is over after {run} of {len(cases)} cases"
            )
        try:
            outputs = _judged(climb, stage, group, answers, executor, run_group(group))
        except Ending as end:
            raise _with_pattern(end, larger) from None
        if keep is not None:
            keep |= {c.id: _defined(o.arrays, answers[c.id]) for c, o in zip(group, outputs, strict=True)}
        run += len(group)
        then(group)
    if not run:
        leave_unmeasured(
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


def _with_pattern(end: Ending, larger: Callable[[], object]) -> Ending:
    """Return the ending with the pattern that a larger case shows, where a mismatch has too few elements to show one."""
    failure = end.failure
    few = failure.evidence.get("of", FEW) < FEW
    if failure.class_ != "mismatch" or failure.evidence.get("pattern") or not few:
        return end
    try:
        larger()
    except Skipped:
        return end
    except Ending as other:
        seen = other.failure.evidence
        if other.failure.class_ != "mismatch" or not seen.get("pattern"):
            return end
        text = f"{failure.message}; at sizes {seen['dims']} it looks like {seen['pattern']}"
        evidence = {**failure.evidence, "pattern": seen["pattern"], "pattern_at": seen["dims"]}
        return Ending(
            end.status, failure.model_copy(update={"message": text, "evidence": evidence}), end.detail
        )
    return end


def in_order(stage: StageName, cases: Sequence[Case]) -> Sequence[Case]:
    """Return the cases of a stage in the order in which they run: in `values` those of equal sizes side by side."""
    return sorted(cases, key=lambda c: str(c.dims)) if stage == "values" else cases


def batches(cases: Sequence[Case]) -> list[list[Case]]:
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


@dataclass(frozen=True)
class Planned:
    """A case to run in check mode, and how."""

    case: Case
    poison: int = 0
    limit_s: float = 20.0
    num_sms: int | None = None


@contextlib.contextmanager
def started(
    climb: Climb, planned: Sequence[Planned], checker: Executor, *, stage: StageName = "tiny", first_alone: bool = True
) -> Iterator[Ask]:  # fmt: skip
    """Start cases in check mode, several side by side; what is judged, and in which order, stays as it was.

    Args:
        climb: The kernel and its suite.
        planned: In the order in which they will be wanted.
        checker: The CPU executor.
        stage: Whom a failure is put to.
        first_alone: The others wait until the first is judged: most kernels that are wrong end with it.

    Yields:
        What `run_cases` takes as `ask`; runs that nobody waits for at the end are ended.
    """
    how = {p.case.id: p for p in planned}
    over = threading.Event()

    def run(group: Sequence[Case]) -> Asked:
        first = how.get(group[0].id) or Planned(group[0])
        return _ask(
            climb, stage, group, executor=checker, mode="check", poison=first.poison, fresh=False,
            limit_s=first.limit_s, num_sms=first.num_sms, over=over,
        )  # fmt: skip

    pool = ThreadPoolExecutor(AT_ONCE)
    alike = itertools.groupby(planned, key=lambda p: (p.poison, p.limit_s, p.num_sms))
    groups = [g for _, part in alike for g in batches([p.case for p in part])]
    waiting: dict[tuple[str, ...], Future[Asked]] = {}

    def submit(groups: Sequence[Sequence[Case]]) -> None:
        if len(groups) <= 2 * AT_ONCE:  # all are soon under way: the longest first
            groups = sorted(groups, key=lambda g: -math.prod(g[0].dims.values()))
        waiting.update({tuple(c.id for c in g): pool.submit(run, g) for g in groups})

    asked = 0

    def ask(group: Sequence[Case]) -> Asked:
        nonlocal asked
        asked += 1
        if asked == 2 and first_alone and AT_ONCE > 1:
            submit(groups[1:])
        found = waiting.pop(tuple(c.id for c in group), None)
        return found.result() if found is not None else run(group)

    if not first_alone and AT_ONCE > 1:
        submit(groups)
    try:
        yield ask
    finally:
        over.set()
        pool.shutdown(wait=False, cancel_futures=True)


def _ask_now(
    climb: Climb, stage: StageName, group: Sequence[Case], *, executor: Executor, mode: Mode, poison: int, fresh: bool,
    limit_s: float, num_sms: int | None,
) -> Asked:  # fmt: skip
    """Run a group, or take what was run ahead of its stage."""
    ahead = climb.ahead if executor is climb.executor else None
    run = partial(
        _ask, climb, stage, group, executor=executor, mode=mode, poison=poison, fresh=fresh, limit_s=limit_s, num_sms=num_sms,
        over=ahead.over if ahead else None,
    )  # fmt: skip
    return ahead.result((stage, poison, fresh, num_sms, tuple(c.id for c in group)), run) if ahead else run()


def run_ahead(
    climb: Climb, stage: StageName, cases: Sequence[Case], *, poison: int = 0, fresh: bool = False
) -> None:
    """Begin what `run_cases` will ask the executor of the climb for in a later stage."""
    assert climb.ahead is not None  # noqa: S101 - the caller made it
    for group in batches(in_order(stage, cases)):
        run = partial(
            _ask, climb, stage, group, executor=climb.executor, mode="plain", poison=poison, fresh=fresh, limit_s=PLAIN_S,
            num_sms=None, over=climb.ahead.over,
        )  # fmt: skip
        climb.ahead.begin((stage, poison, fresh, None, tuple(c.id for c in group)), run)


def _ask(
    climb: Climb, stage: StageName, group: Sequence[Case], *, executor: Executor, mode: Mode, poison: int, fresh: bool,
    limit_s: float, num_sms: int | None, over: threading.Event | None = None,
) -> Asked:  # fmt: skip
    first, left = group[0], climb.deadline - time.monotonic()
    program = program_for(climb, first.dims, first.scalars, num_sms=num_sms)
    on = f" with {num_sms} multiprocessors" if num_sms is not None else ""
    if isinstance(program, PlanFault):
        fail(stage, program.class_, f"at sizes {first.dims}{on}: {program.message}", program.evidence)
    calls = tuple(climb.suite.inputs(c) for c in group)
    deadline_s = min(max(left, 0.1), 60.0 if stage == "target" else limit_s)
    job = job_for(climb, program, calls, mode, deadline_s=deadline_s, poison=poison, fresh=fresh, over=over)
    return Asked(calls, executor.run(job), left)


def _judged(
    climb: Climb, stage: StageName, group: Sequence[Case], answers: dict[str, Answer], executor: Executor, asked: Asked
) -> tuple[CallOutput, ...]:  # fmt: skip
    """Return the outputs of a group that ran and is right; else end the climb."""
    first, done = group[0], asked.done
    where = {"dims": first.dims, "regime": first.regime}
    if isinstance(done, JobFault):
        if done.fault == "timeout" and asked.left_s < 20.0:
            leave_unmeasured(stage, "resources", f"the time for judging is over: {done.message}", where)
        fail(stage, done.fault, f"{done.message} [sizes {first.dims}]", {**done.evidence, **where})
    if isinstance(done, JobNotRun):
        if stage == "tiny" and executor is not climb.executor:
            msg = f"{done.reason} on the CPU executor: {done.message}"
            raise Skipped(msg)
        leave_unmeasured(stage, done.reason, done.message, {**done.evidence, **where})
    if done.coverage is not None:
        climb.places |= done.coverage.places
        climb.reached |= done.coverage.reached
    _compare_calls(climb, stage, group, answers, asked.calls, done)
    return done.calls


def _defined(arrays: Mapping[str, Array], answer: Answer) -> dict[str, Array]:
    """Return what of each output the request defines: the rest may hold anything."""
    return {
        n: a.reshape(-1)[answer.defined[n].reshape(-1)] if n in answer.defined else a
        for n, a in arrays.items()
    }


def _compare_calls(
    climb: Climb,
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
                fail(
                    stage,
                    "unwritten_output",
                    f"{missing} of {total} bytes of {name!r} are never written [sizes {case.dims}]",
                    {**where, "output": name},
                )
        found = compare_outputs(climb.ir, case.dims, call.arrays, expected_of(answer), inputs=inputs)
        if isinstance(found, Mismatch) and found.class_ != "nonfinite":
            most = expected_of(most_lent(climb.ir, answer))
            hopeless = compare_outputs(climb.ir, case.dims, call.arrays, most, inputs=inputs)
            lending = None if isinstance(hopeless, Mismatch) else climb.suite.lending(case, answer)
            if lending is not None:
                again = compare_outputs(climb.ir, case.dims, call.arrays, expected_of(lending), inputs=inputs)
                found = found if isinstance(again, Mismatch) else again
        if isinstance(found, Mismatch):
            hint = (
                f"; call {number + 1} of one process, the calls before it were right: state of an earlier call leaks in"
                if number > 0 and stage == "repeat"
                else ""
            )
            broken = named(climb.suite, case, answer, call.arrays, inputs)
            also = f"; it violates a property: {broken}" if broken else ""
            text = f"{found.message}{hint}{also} [sizes {case.dims}, regime {case.regime}]"
            fail(
                stage,
                found.class_,
                text,
                {**found.evidence, **where, **({"property": broken} if broken else {})},
            )


def _really_unwritten(ir: KernelIR, case: Case, name: str, mask: Any, answer: Answer) -> bool:  # noqa: ANN401 - a mask or None
    """Return whether bytes that look unwritten belong to elements that the request defines."""
    defined = answer.defined.get(name)
    if defined is None:
        return True
    if mask is None or mask.size != defined.size:
        return bool(defined.all())
    _ = ir, case
    return bool((mask.reshape(-1) & defined.reshape(-1)).any())
