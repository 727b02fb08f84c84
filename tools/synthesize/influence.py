"""Whether a reference repeats itself, and whether every input and free scalar moves it that should."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import FLOATS
from cuda_harness.state.suite import Case
from cuda_harness.tools.synthesize.inputs import scalars_of
from cuda_harness.tools.synthesize.reply import Question, ReferenceFault, Truth
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.synthesize.truths import unusable


def influence(suite: Suite, cases: Sequence[Case]) -> str | None:
    """Return which input or free scalar does not move the reference though it should, or moves it though it must not.

    A reference that differs from itself is named first; one that fails is left to whoever asks it for truths.
    """
    usable = [c for c in cases if 0 not in c.dims.values()][-5:]
    told = _asked(suite, [Question(suite.inputs(c), c.dims, c.scalars) for c in usable]) if usable else None
    if told is None:
        return None
    usable = [c for c, t in zip(usable, told, strict=True) if unusable(suite.ir, t) is None]
    if not usable:
        return None
    base = [t for t in told if unusable(suite.ir, t) is None]
    given = [suite.inputs(c) for c in usable]
    plain = [Question(i, c.dims, c.scalars) for i, c in zip(given, usable, strict=True)]
    again = _asked(suite, plain[::-1])  # in another order: what was asked before must not matter
    if again is not None and not _alike(suite.ir, base, again[::-1]):
        return "the reference is not deterministic: two evaluations of one case differ"
    for tensor in suite.ir.inputs:
        others = [suite.inputs(c.model_copy(update={"seed": c.seed + 17}))[tensor.name] for c in usable]
        if all(np.array_equal(q.inputs[tensor.name], o) for q, o in zip(plain, others, strict=True)):
            continue
        moved = _asked(
            suite,
            [replace(q, inputs={**q.inputs, tensor.name: o}) for q, o in zip(plain, others, strict=True)],
        )
        if moved is None:
            continue
        same = _alike(suite.ir, base, moved)
        if same and not tensor.unused:
            return f'input {tensor.name!r} does not matter to the reference; mark it "unused" or mend the reference'
        if not same and tensor.unused:
            return f"input {tensor.name!r} is marked unused but moves the reference"
    return _idle_scalar(suite, plain, base)


def _idle_scalar(suite: Suite, plain: Sequence[Question], base: Sequence[Truth]) -> str | None:
    """Return which free scalar moves nothing at either end of its range, `None` when all do."""
    for scalar in suite.ir.scalars:
        drawn = {scalars_of(suite.ir, f"end{i}", suite.seed)[scalar.name] for i in range(8)}
        if scalar.fixed or len(drawn) < 2:
            continue
        still = True
        for value in (min(drawn), max(drawn)):
            moved = _asked(suite, [replace(q, scalars={**q.scalars, scalar.name: value}) for q in plain])
            still = still and moved is not None and _alike(suite.ir, base, moved)
        if still:
            return f"scalar {scalar.name!r} does not matter to the reference; make it fixed or mend the reference"
    return None


def _asked(suite: Suite, questions: Sequence[Question]) -> list[Truth] | None:
    found = suite.ask(suite.reference, questions)
    return None if isinstance(found, ReferenceFault) else found


def _alike(ir: KernelIR, first: Sequence[Truth], second: Sequence[Truth]) -> bool:
    return all(
        np.array_equal(a.arrays[t.name], b.arrays[t.name], equal_nan=t.dtype in FLOATS)
        for a, b in zip(first, second, strict=True)
        for t in ir.outputs
    )
