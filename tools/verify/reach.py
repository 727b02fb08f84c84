"""Check mode at more sizes than the tiny ones, until every part of kernel.cu has run or the time for it is spent.

The tiny sizes reach the tail of a loop that is unrolled by 32 * 8, not its body, and no second tile of 2048 elements.
The executor tells which basic blocks ran; sizes at which the kernel may behave otherwise are tried until none is left.
"""

import math
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from cuda_harness.state.ir import Dim
from cuda_harness.state.kernel import PlanStep, Repeat, While
from cuda_harness.state.suite import Case
from cuda_harness.tools.execute.protocol import FORWARD, MIXED, Executor, LaunchOp
from cuda_harness.tools.ir.program import PlanFault
from cuda_harness.tools.synthesize.shapes import Sizes, admitted, around, work
from cuda_harness.tools.verify.cases import Ask, Planned, run_cases
from cuda_harness.tools.verify.climb import Climb, Ending, Skipped, program_for, with_order
from cuda_harness.tools.verify.landmarks import MOST, beyond, landmarks

REACH_S = 12.0
"""Most wall seconds of the search, for a slow machine; else it ends by the number of its runs."""
_MOST_RUNS = 42
_RUN_S = 2.0
_WORK = 3_000_000
"""Most work of one run that may reach something new."""
_FURTHER_WORK = 1_200_000
"""Most work of one run in check mode that is made of every kernel."""
_TURNS_WORK = 250_000
"""Most work of a size that is there for its many blocks: a tenth of a second, where a grid's limit takes half of one."""
_EXPANSIONS = 160
_PATIENCE = 12
"""Runs in a row that reach nothing new before the search for sizes ends."""
_BATCH = 6
_CROWDS = 2
_BESIDE = (37, 17, 9, 5, 3, 2)
"""What the other dims are where one is long: as many as the work allows."""
_TILES = 67
"""Four turns of a tile of 16 and two of 32 along one dim, where so many dims are free that chance seldom makes it."""
_CROWD = 100_000
"""Threads of one run in check mode beyond which a smaller size is looked for: each costs a microsecond to start."""
_FEW = 8
"""A dim of at most this many was not the one that a limit of the plan is exceeded by."""


def foreseen(climb: Climb, done: Sequence[Case]) -> list[Planned]:
    """Return the runs that every kernel gets after its tiny cases, whatever these reach."""
    further = beyond(climb.kernel, climb.ir, budget=_FURTHER_WORK)
    crowds = [c for c in (_crowded(climb, s) for s in further) if c not in further]
    sizes = [s for s in (*further, *crowds[:_CROWDS]) if work(climb.ir, s) <= _FURTHER_WORK]
    found = [
        *_busy(climb, done),
        *(Planned(_at(done, s, "normal"), poison=n, limit_s=_RUN_S) for n, s in enumerate(sizes)),
    ]
    # The same sizes may be wanted in another order, or with another number of multiprocessors: each is a case of its own.
    return [
        replace(p, case=p.case.model_copy(update={"id": f"{p.case.id}-{k}"})) for k, p in enumerate(found)
    ]


def explore(climb: Climb, checker: Executor, done: Sequence[Case], ahead: Sequence[Planned], ask: Ask) -> str:
    """Judge the foreseen runs, then try further sizes and regimes while parts of the kernel have not run.

    Args:
        climb: The kernel and its suite.
        checker: The CPU executor.
        done: The tiny cases.
        ahead: What was `foreseen`.
        ask: Answers for those.

    Raises:
        Ending: When a run finds a fault or a mismatch. What cannot be run in time is left, and blames nobody.
    """
    until = min(time.monotonic() + 6 * _RUN_S, climb.deadline)
    climb.suite.answers([p.case for p in ahead])
    ran = 0
    for planned in ahead:
        if time.monotonic() > until:
            break
        if _bears(climb, checker, planned, ask=ask):
            ran += 1
            climb.checked.append(planned.case.dims)
    tried = [*(c.dims for c in done), *(p.case.dims for p in ahead)]
    first, idle, until = ran, 0, min(time.monotonic() + REACH_S, climb.deadline)
    for batch in _batches(_ordered(climb, tried), _BATCH) if climb.unreached else ():
        late = time.monotonic() > until or ran - first >= _MOST_RUNS
        if late or not climb.unreached or idle >= _PATIENCE:
            break
        before = len(climb.unreached)
        runs = _run(climb, checker, [_at(done, s, done[0].regime) for s in batch], until)
        idle = idle + runs if len(climb.unreached) == before else 0
        ran += runs
    if climb.unreached:
        ran += _run(climb, checker, _other_values(climb, done), until)
    lines = sorted({line for line, _ in climb.unreached})
    if not climb.places:
        return f"; {ran} more"
    return f"; {ran} more, " + (
        f"parts of line(s) {_spans(lines)} never ran" if lines else "every part of the kernel ran"
    )


def _crowded(climb: Climb, sizes: Sizes) -> Sizes:
    """Return sizes whose small dims are at their target: blocks that take turns then have work in every warp and turn."""
    crowded = {
        d.name: d.value if sizes[d.name] <= _FEW and not d.fixed else sizes[d.name] for d in climb.ir.dims
    }
    fits = admitted(climb.ir, crowded) and work(climb.ir, crowded) <= _FURTHER_WORK
    return crowded if fits else sizes


def _busy(climb: Climb, done: Sequence[Case]) -> list[Planned]:
    """Return the fewest elements there may be, then sizes at which all warps have work and blocks take several turns.

    One to seven elements are less than a vector, or one vector and a tail. What idle warps leave in shared memory is
    zero each time, and a race that writes the same value is none; where the plan asks, there is one multiprocessor.
    Those of many blocks are run in mixed order, in which few blocks of few threads are together and get in each other's way.
    """
    shapes = climb.suite.cases("shapes", tunables=climb.tunables)
    largest = [c.dims for c in shapes if work(climb.ir, c.dims) <= _TURNS_WORK][-1:]
    threads = max((n for n in climb.tunables if n <= 1024), default=256)
    some = {d.name: min(around(d, (17, 37, 61), most=64), key=lambda n: abs(n - 37)) for d in climb.ir.dims}
    free = [d for d in climb.ir.dims if not d.fixed]
    wide = [
        *(_wide(climb, d, threads) for d in free),
        *(_along(climb, d, _TILES) for d in free if len(free) > 2),
    ]
    least = {d.name: d.value if d.fixed else around(d, (1,), most=64)[0] for d in climb.ir.dims}
    last = next((d for d in reversed(climb.ir.dims) if not d.fixed), None)
    some_more = [{**least, last.name: n} for n in (3, 5) if last.admits(n)] if last is not None else []
    turns = [
        {**some, name: n} for name in _counted(climb) for n in (2, 4)
    ]  # two buffers that take turns end in either
    num_sms = 1 if "num_sms" in climb.kernel.plan.model_dump_json() else None
    chosen = [
        *((s, False) for s in (least, *some_more, *turns)),
        *((s, True) for s in (*wide, *largest)),
    ]
    fit = [(s, many) for s, many in chosen if admitted(climb.ir, s) and work(climb.ir, s) <= _FURTHER_WORK]
    return [
        Planned(
            _at(done, sizes, "normal"), poison=with_order(climb, n, MIXED) if many else n, limit_s=_RUN_S, num_sms=num_sms
        )
        for n, (sizes, many) in enumerate(fit)
    ]  # fmt: skip


def _wide(climb: Climb, dim: Dim, threads: int) -> Sizes:
    """Return sizes with four turns of a block's threads along one dim; one turn, where each element is a block of its own."""
    sizes = _along(climb, dim, 4 * threads + 2)
    program = program_for(climb, sizes, {})
    launches = (
        [] if isinstance(program, PlanFault) else [op for op in program.ops if isinstance(op, LaunchOp)]
    )
    crowd = sum(math.prod(op.grid) * math.prod(op.block) for op in launches) > _CROWD
    return {**sizes, dim.name: min(around(dim, (threads + 2,), most=MOST))} if crowd else sizes


def _along(climb: Climb, dim: Dim, length: int) -> Sizes:
    """Return sizes with one long dim, the others as large as a run in check mode bears: five of 37 would be beyond it."""
    sizes: Sizes = {}
    for least in _BESIDE:
        sizes = {
            d.name: min(around(d, (least,), most=64), key=lambda n: abs(n - least)) for d in climb.ir.dims
        }
        sizes[dim.name] = min(around(dim, (length,), most=MOST))
        if work(climb.ir, sizes) <= _FURTHER_WORK:
            break
    return sizes


def _counted(climb: Climb) -> list[str]:
    """Return the free dims that a `repeat` of the plan counts by."""
    names: set[str] = set()

    def look(steps: tuple[PlanStep, ...]) -> None:
        for step in steps:
            if isinstance(step, Repeat):
                names.update(step.repeat.count.names)
            if isinstance(step, (Repeat, While)):
                look(step.steps)

    look(climb.kernel.plan.steps)
    return [d.name for d in climb.ir.dims if d.name in names and not d.fixed]


def _run(climb: Climb, checker: Executor, cases: list[Case], until: float) -> int:
    """Run cases one by one until everything has run; return how many ran."""
    ran = 0
    for number, case in enumerate(cases):
        if time.monotonic() > until or not climb.unreached:
            break
        if number == 0:
            climb.suite.answers(cases)
        ran += _bears(climb, checker, Planned(case, poison=number, limit_s=_RUN_S))
    return ran


def _bears(climb: Climb, checker: Executor, planned: Planned, *, ask: Ask | None = None) -> bool:
    """Return whether a case ran and was right; one that takes too long or too much blames nobody.

    Raises:
        Ending: If it found a fault or a mismatch.
    """
    try:
        _check(climb, checker, planned, ask)
    except Skipped:
        return False
    except Ending as end:
        if end.failure.is_candidates and end.failure.class_ not in {"timeout", "resources"}:
            raise _told_of_order(climb, checker, planned, end) from None
        return False
    return True


def _check(climb: Climb, checker: Executor, planned: Planned, ask: Ask | None = None) -> None:
    run_cases(
        climb, "tiny", [planned.case], checker, "check", poison=planned.poison, limit_s=planned.limit_s,
        num_sms=planned.num_sms, ask=ask,
    )  # fmt: skip


def _told_of_order(climb: Climb, checker: Executor, planned: Planned, end: Ending) -> Ending:
    """Return the ending; where the case is right with one thread after the other, it says so."""
    forward = with_order(climb, planned.poison, FORWARD)
    if end.failure.class_ != "mismatch" or forward == planned.poison:
        return end
    try:
        _check(climb, checker, replace(planned, poison=forward))
    except (Skipped, Ending):
        return end
    text = (
        f"{end.failure.message}; it is right when threads run one after the other: an update is lost between reading and "
        "changing a word, or nothing orders two threads"
    )
    evidence = {**end.failure.evidence, "depends_on_order": True}
    return Ending(
        end.status, end.failure.model_copy(update={"message": text, "evidence": evidence}), end.detail
    )


def _at(done: Sequence[Case], sizes: Sizes, regime: str) -> Case:
    """Return a case of stage `tiny` at other sizes, with the scalars of one that ran."""
    like = done[len(done) // 2]
    name = f"reach-{'x'.join(map(str, sizes.values())) or 'one'}-{regime}"
    seed = (like.seed + zlib.crc32(name.encode())) % (1 << 62)
    return like.model_copy(update={"id": name, "dims": sizes, "regime": regime, "seed": seed})


def _other_values(climb: Climb, done: Sequence[Case]) -> list[Case]:
    """Return the regimes that no run has had yet, at the largest size in check mode so far."""
    had = {c.regime for c in done}
    dims = max((c.dims for c in done), key=lambda d: work(climb.ir, d))
    regimes = dict.fromkeys(c.regime for c in climb.suite.cases("values", tunables=climb.tunables))
    return [_at(done, dims, r) for r in regimes if r not in had][:12]


def _ordered(climb: Climb, tried: list[Sizes]) -> list[Sizes]:
    """Return sizes to try: first those at which other kernels run or grids become many blocks, then of each magnitude one."""
    found: list[Sizes] = []
    for sizes in _candidates(climb):
        if (
            sizes not in tried
            and sizes not in found
            and admitted(climb.ir, sizes)
            and work(climb.ir, sizes) <= _WORK
        ):
            found.append(sizes)
    found.sort(key=lambda s: work(climb.ir, s))
    step = max(1, len(found) // _EXPANSIONS)
    seen = {_signature(climb, s) for s in tried}
    first, magnitudes, rest = [], [], []
    of_size: set[tuple[int, ...]] = {_magnitude(s) for s in tried}
    for number, sizes in enumerate(found):
        signature = _signature(climb, sizes) if number % step == 0 else None
        if signature is not None and signature not in seen:
            seen.add(signature)
            first.append(sizes)
        elif _magnitude(sizes) not in of_size:
            magnitudes.append(sizes)
        else:
            rest.append(sizes)
            continue
        of_size.add(_magnitude(sizes))
    return first + _from_both_ends(magnitudes) + rest


def _from_both_ends(sizes: list[Sizes]) -> list[Sizes]:
    """Return the largest, the smallest, the second largest, ...: one large size often reaches all that is left."""
    return [sizes[-1 - at // 2] if at % 2 == 0 else sizes[at // 2] for at in range(len(sizes))]


def _magnitude(sizes: Sizes) -> tuple[int, ...]:
    return tuple(n.bit_length() for n in sizes.values())


def _signature(climb: Climb, sizes: Sizes) -> tuple[tuple[str, int], ...] | None:
    """Return which kernels run, each with one, two or more blocks; `None` where the plan has a fault."""
    program = program_for(climb, sizes, {})
    if isinstance(program, PlanFault):
        return None
    launches = (op for op in program.ops if isinstance(op, LaunchOp))
    return tuple(sorted({(op.kernel, min(op.grid[0] * op.grid[1] * op.grid[2], 3)) for op in launches}))


def _candidates(climb: Climb) -> Iterator[Sizes]:
    """Yield sizes with one dim at a landmark, then with two; then those of the later stages."""
    marks = landmarks(climb.kernel)
    lists = {d.name: around(d, marks, most=MOST) for d in climb.ir.dims}
    few = {d.name: min(around(d, (5,), most=64), key=lambda n: abs(n - 5)) for d in climb.ir.dims}
    least = {d.name: max(d.min, d.multiple_of) if not d.fixed else d.value for d in climb.ir.dims}
    names = list(lists)
    for others in (few, least):
        for name in names:
            yield from ({**others, name: size} for size in lists[name])
    for case in climb.suite.cases("shapes", tunables=climb.tunables):
        yield case.dims
    for one, two in product(names, names):
        if one < two:
            for a, b in product(
                lists[one][:: max(1, len(lists[one]) // 12)], lists[two][:: max(1, len(lists[two]) // 12)]
            ):
                yield {**few, one: a, two: b}


def _batches(sizes: list[Sizes], count: int) -> Iterator[list[Sizes]]:
    for at in range(0, len(sizes), count):
        yield sizes[at : at + count]


def _spans(lines: list[int]) -> str:
    """Return line numbers in words, neighbours joined: `38-41, 57`."""
    spans: list[list[int]] = []
    for line in lines:
        if spans and line == spans[-1][1] + 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    return ", ".join(f"{a}-{b}" if b > a else str(a) for a, b in spans)
