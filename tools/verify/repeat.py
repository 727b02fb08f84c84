"""Stage `repeat`: calls that follow one another, in several processes and orders, leave the same result."""

import contextlib
from collections.abc import Mapping
from typing import NoReturn

from cuda_harness.state.suite import Case
from cuda_harness.tools.execute.protocol import Array, Mode
from cuda_harness.tools.synthesize.shapes import work
from cuda_harness.tools.verify.cases import Ask, Planned, run_cases, started
from cuda_harness.tools.verify.climb import Climb, Ending, fail
from cuda_harness.tools.verify.policy import order_may_matter

FIRST, AGAIN = 1, 2
"""Poison of the two processes."""
_ORDER_WORK = 250_000
"""Most work of a size that is run in several orders: hundreds of blocks, at a tenth of the price of the largest."""


def repeat_stage(climb: Climb) -> str:
    """Several calls at the same addresses, in two processes: nothing may leak from call to call."""
    cases = repeated(climb)
    first: dict[str, dict[str, Array]] = {}
    again: dict[str, dict[str, Array]] = {}
    run_cases(climb, "repeat", cases, climb.executor, "plain", poison=FIRST, keep=first)
    # The first calls come after all those of earlier stages, the second in a process that has seen none of them.
    detail = run_cases(
        climb, "repeat", tuple(reversed(cases)), climb.executor, "plain", poison=AGAIN, keep=again, fresh=True
    )
    differing = _differing_bits(first, again)
    if differing is not None:
        text = f"the bits of output {differing!r} differ between two runs on the same inputs"
        if climb.ir.numerics.deterministic:
            _not_deterministic(climb, text, differing, cases[0].dims)
        if not order_may_matter(climb.mixes, climb.kernel.plan, climb.facts):
            why = "the kernel has no atomics or fences that could explain it: a race, or memory that was never written"
            fail("repeat", "nondeterministic", f"{text}; {why}", {"output": differing, "dims": cases[0].dims})
        climb.warnings.append(f"{text}: within the tolerance, as float atomics or free order make it")
    told = f"{detail}; each in two processes with other poison and order"
    return told + (check_order(climb) if climb.ir.numerics.deterministic else "")


def repeated(climb: Climb) -> tuple[Case, ...]:
    """Return the calls that follow one another, of one set of scalars, so that all run in one process at the same addresses.

    How many there are nobody knows before.
    """
    drawn = climb.suite.cases("repeat", tunables=climb.tunables)
    calls = ((i, drawn[i % len(drawn)]) for i in range(5 + climb.seed % 4))
    return tuple(
        c.model_copy(
            update={"id": f"{c.id}-call{i}", "seed": c.seed + 7_919 * i, "scalars": drawn[0].scalars}
        )
        for i, c in calls
    )


def check_order(climb: Climb) -> str:
    """Run the largest shapes that are quick in several orders of blocks and threads; end the climb where bits differ.

    Few blocks hide what order does: two terms have the same sum either way.
    """
    shuffles = climb.checker if climb.checker is not None and climb.executor.name != "cpu" else climb.executor
    shapes = sorted(
        climb.suite.cases("shapes", tunables=climb.tunables), key=lambda c: work(climb.ir, c.dims)
    )
    cases = ([c for c in shapes if work(climb.ir, c.dims) <= _ORDER_WORK] or shapes)[-2:]
    runs: dict[str, list[dict[str, dict[str, Array]]]] = {}
    orders = [(shuffles, poison) for poison in range(3)]  # forward, backward, mixed
    if shuffles is not climb.executor:  # a GPU's order is its own
        orders += [(climb.executor, poison) for poison in (3, 4)]
    with contextlib.ExitStack() as stack:
        asks: dict[int, Ask] = {}
        if shuffles is not climb.executor:
            asks = {
                p: stack.enter_context(
                    started(
                        climb, [Planned(c, p) for c in cases], shuffles, stage="repeat", first_alone=False
                    )
                )
                for _, p in orders[:3]
            }
        for executor, poison in orders:
            kept: dict[str, dict[str, Array]] = {}
            mode: Mode = "plain" if executor is climb.executor else "check"  # whose build is there already
            try:
                run_cases(
                    climb, "repeat", cases, executor, mode, poison=poison, keep=kept, ask=asks.get(poison)
                )
            except Ending as end:
                if executor is climb.executor or end.failure.is_candidates:
                    raise
                continue  # the CPU executor cannot run it: the GPU's own order remains
            others = runs.setdefault(executor.name, [])  # another machine's arithmetic may have other bits
            differing = next((d for o in others if (d := _differing_bits(o, kept)) is not None), None)
            if differing is not None:
                text = f"the bits of output {differing!r} differ when blocks and threads run in another order"
                _not_deterministic(climb, text, differing, cases[0].dims)
            others.append(kept)
    count = sum(map(len, runs.values()))
    for found in climb.float_atomics[:1]:
        climb.warnings.append(
            f"line {found.line}: {found.text}; the bits were equal in {count} runs in other orders, so it is accepted"
        )
    return f"; bits equal in {count} runs in other orders"


def _not_deterministic(climb: Climb, text: str, output: str, dims: dict[str, int]) -> NoReturn:
    where = next((f"; line {f.line}: {f.text}" for f in climb.float_atomics), "")
    line = {"line": climb.float_atomics[0].line} if climb.float_atomics else {}
    fail(
        "repeat", "nondeterministic",
        f"{text}, which `deterministic` forbids: reduce in a fixed order{where}",
        {"output": output, "dims": dims, **line},
    )  # fmt: skip


def _differing_bits(
    first: Mapping[str, Mapping[str, Array]], again: Mapping[str, Mapping[str, Array]]
) -> str | None:
    """Return the output whose bits differ between two runs of one case, `None` when there is none."""
    for case, arrays in first.items():
        for name, array in arrays.items():
            if case in again and array.tobytes() != again[case][name].tobytes():
                return name
    return None
