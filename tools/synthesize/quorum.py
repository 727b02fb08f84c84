"""Whether references that never saw each other say the same, and the smallest case in which they do not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.ir import Compare as Rule
from cuda_harness.state.ir import KernelIR, Tensor
from cuda_harness.state.names import FLOATS
from cuda_harness.state.suite import Case
from cuda_harness.tools.synthesize.formula import Contradiction
from cuda_harness.tools.synthesize.reply import Truth
from cuda_harness.tools.verify.compare import same_value

Array = NDArray[Any]
Inputs = Mapping[str, Mapping[str, Array]]


@dataclass(frozen=True)
class Disagreement:
    """The smallest case in which two references differ, or in which they agree and the IR's formulas differ from them."""

    case: Case
    output: str
    index: tuple[int, ...]
    first: float
    """What the vectorised reference says."""
    second: float | None
    """What the loop reference says; `None` where it agrees with the first."""
    message: str
    formula: float | None = None
    """What the IR's formulas say; `None` where they were not evaluated."""


def smallest_difference(
    ir: KernelIR, cases: Sequence[Case], first: Sequence[Truth], second: Sequence[Truth], given: Inputs
) -> Disagreement | None:
    """Return where the references first differ, `None` when they agree in all cases.

    Args:
        ir: Says by which rule outputs are equal.
        cases: The smallest first.
        first: What the vectorised reference says of each.
        second: What the loop reference says of each.
        given: Inputs of each case by its id, for outputs that name their elements.
    """
    for case, a, b in zip(cases, first, second, strict=True):
        found = _differ(ir, case, a, b, given[case.id])
        if found is not None:
            return found
    return None


def against_formulas(found: Contradiction) -> Disagreement:
    """Return a contradiction between agreeing references and the IR's formulas as a disagreement."""
    return Disagreement(
        found.case, found.output, found.index, found.reference, None, found.message, found.formula
    )


def _differ(ir: KernelIR, case: Case, a: Truth, b: Truth, given: Mapping[str, Array]) -> Disagreement | None:
    for tensor in ir.outputs:
        x, y = a.arrays[tensor.name], b.arrays[tensor.name]
        one, two = a.defined.get(tensor.name), b.defined.get(tensor.name)
        if one is not None and two is not None and not np.array_equal(one, two):
            return _shown(case, tensor, one != two, one, two, "defined (1) or not (0)")
        mask = np.ones(x.shape, dtype=bool)
        for part in (one, two):
            mask &= True if part is None else part
        rule = tensor.compare
        if rule is not None and rule.mode == "set":
            x, y = np.sort(x[mask]), np.sort(y[mask])
            mask = np.ones(x.shape, dtype=bool)
        alike = _alike(tensor, x, y)
        if rule is not None and rule.mode == "index" and rule.ties == "any":
            alike |= _named_alike(rule, x, y, {**given, **a.arrays})
        wrong = ~alike & mask
        if wrong.any():
            return _shown(case, tensor, wrong, x, y, "")
    return None


def _named_alike(rule: Rule, x: Array, y: Array, values: Mapping[str, Array]) -> Array:
    """Return where two outputs of indices name equal values; nowhere when what they name is not at hand."""
    named = values.get(rule.of or "")
    if named is None:
        return np.zeros(x.shape, dtype=bool)
    return same_value(named, rule.axis, x.astype(np.int64), y.astype(np.int64))


def _shown(case: Case, tensor: Tensor, wrong: Array, x: Array, y: Array, what: str) -> Disagreement:
    index = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
    one, two = float(x[index]), float(y[index])
    place = f"{tensor.name}[{', '.join(map(str, index))}]" + (f", {what}," if what else "")
    message = (
        f"the references disagree at sizes {case.dims}, regime {case.regime}: {place} is {one:.9g} by the vectorised "
        f"one and {two:.9g} by the loop one ({int(wrong.sum())} of {wrong.size} elements differ)"
    )
    return Disagreement(case, tensor.name, index, one, two, message)


def _alike(tensor: Tensor, x: Array, y: Array) -> Array:
    """Return where two references agree: floats up to float64 rounding, everything else exactly."""
    if tensor.dtype not in FLOATS:
        return np.asarray(x == y)
    with np.errstate(all="ignore"):
        finite = np.isfinite(x) & np.isfinite(y)
        scale = float(np.max(np.abs(x[finite]))) if finite.any() else 0.0
        near = np.abs(x - y) <= 1e-7 * np.abs(x) + 1e-9 * scale + 1e-300
        return np.asarray((np.isnan(x) & np.isnan(y)) | (x == y) | (finite & near))
