"""The third vote: the formulas of an IR's steps evaluated as they stand, against what a reference says.

Formulas are prose with rules: many are not of the formula language, none of them says what the edge rules say. So a
formula that cannot be read or evaluated is not a vote, an element without a finite value is not compared, and only
plain regimes are asked, where a formula written without thought for overflow is as good as a careful one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.expr import ExprError
from cuda_harness.state.ir import KernelIR, Tensor
from cuda_harness.state.names import FLOATS
from cuda_harness.state.suite import Case
from cuda_harness.tools.execute.dtypes import np_dtype, to_reference
from cuda_harness.tools.formula.binding import Bound, Problem
from cuda_harness.tools.formula.evaluate import Evaluation, TooMuchWork, Values
from cuda_harness.tools.formula.nodes import Binary, Node, Reduce, Statement, free_variables, walk
from cuda_harness.tools.formula.parse import FormulaError
from cuda_harness.tools.synthesize.reference import Truth

Array = NDArray[Any]
PLAIN = frozenset({"normal", "negated", "ties", "equal", "sorted", "sparse"})
"""Regimes in which a formula may vote."""
_NODES = 300_000
"""Nodes one case may visit: well under a second."""
_CASES = 12
"""Cases that are asked, spread over sizes and regimes."""
_EXACT = 2.0**53
_TOO_MUCH = "it takes too many operations"


@dataclass(frozen=True)
class Contradiction:
    """The smallest case in which formulas and a reference differ."""

    case: Case
    output: str
    index: tuple[int, ...]
    reference: float
    formula: float
    wrong: int
    compared: int
    firm: bool
    """No edge rule can explain it: there are none, or most elements differ."""
    message: str


@dataclass(frozen=True)
class Vote:
    """What the formulas say of a reference."""

    cases: int
    """Cases that were evaluated; 0: the formulas cast no vote."""
    reason: str
    """Why there is no vote, or what was compared."""
    against: Contradiction | None = None


class _Reading(Problem):
    """A problem whose one-element targets may be written without an index, as people do."""

    def bind(self, statement: Statement) -> Bound:
        target = self.arrays.get(statement.target)
        if target is not None and not statement.indices and target.shape == ("1",):
            statement = Statement(statement.target, ("_only",), statement.value)
        return super().bind(statement)


def vote(
    ir: KernelIR,
    cases: Sequence[Case],
    inputs: Mapping[str, Mapping[str, Array]],
    truths: Mapping[str, Truth],
) -> Vote:
    """Return whether the formulas agree with a reference on tiny cases.

    Args:
        ir: Its steps carry the formulas.
        cases: The smallest first; those of other than plain regimes, and without a truth, are passed over.
        inputs: By case, in exact dtypes.
        truths: What the reference said, by case.
    """
    try:
        problem = _Reading(ir)
    except FormulaError as exc:
        return Vote(0, f"not evaluated: {exc}"[:300])
    except RecursionError:
        return Vote(0, "not evaluated: a formula is nested too deeply")
    if any(_two_readings(n) for b in problem.bound for n in walk(b.statement.value)):
        return Vote(0, "not evaluated: it is not clear whether a factor after a reduction belongs to it")
    asked = [c for c in cases if c.regime in PLAIN and c.id in truths]
    asked = asked[:: -(-len(asked) // _CASES) or 1]
    evaluated, reason = 0, "no case of a plain regime"
    first: Contradiction | None = None
    for case in asked:
        found = _evaluated(problem, case, inputs[case.id])
        if isinstance(found, str):
            reason = found
            if found == _TOO_MUCH:  # the cases grow
                break
            continue
        against = _contradicts(ir, case, truths[case.id], found)
        evaluated += 1
        if against is not None and (first is None or not first.firm):
            first = against if first is None or against.firm else first
        if first is not None and first.firm:
            break
    if not evaluated:
        return Vote(0, f"not evaluated: {reason}")
    if first is not None:
        return Vote(evaluated, "they contradict the reference", first)
    return Vote(evaluated, f"they agree with the reference in {evaluated} of {len(asked)} cases")


def _two_readings(node: Node) -> bool:
    """Return whether a product ends a reduction with a factor that may stand outside: `prod_k x[k] * c`.

    For sums and means both readings have one value.
    """
    if not isinstance(node, Reduce) or node.kind not in {"prod", "max", "min"}:
        return False
    body = node.body
    if not isinstance(body, Binary) or body.op not in "*/":
        return False
    return not free_variables(body.right, frozenset(node.variables))


def value_at(
    ir: KernelIR, case: Case, inputs: Mapping[str, Array], output: str, index: tuple[int, ...]
) -> float | None:
    """Return what the formulas say of one element, `None` where they say nothing."""
    try:
        found = _evaluated(_Reading(ir), case, inputs)
    except (FormulaError, RecursionError):
        return None
    return None if isinstance(found, str) else found.get(output, {}).get(index)


def _evaluated(problem: Problem, case: Case, inputs: Mapping[str, Array]) -> dict[str, Values] | str:
    """Return the elements of every array that the formulas define, or why there are none at this case."""
    given: dict[str, Values] = {}
    for tensor in problem.ir.inputs:
        wide = to_reference(tensor.dtype, np.asarray(inputs[tensor.name]))
        places = product(*(range(n) for n in wide.shape))
        given[tensor.name] = dict(zip(places, wide.reshape(-1).tolist(), strict=True))
    try:
        return Evaluation(problem, case.dims, case.scalars, given, most=_NODES).arrays
    except TooMuchWork:
        return _TOO_MUCH
    except KeyError:
        return "an index leaves its array, which only an edge rule can settle"
    except (ArithmeticError, ValueError, TypeError, RecursionError, ExprError) as exc:
        return f"a value has no meaning in a formula ({exc})"


def _contradicts(ir: KernelIR, case: Case, truth: Truth, found: Mapping[str, Values]) -> Contradiction | None:
    finite = [abs(v) for values in found.values() for v in values.values() if np.isfinite(v)]
    largest = max(finite, default=0.0)
    for tensor in ir.outputs:
        rule = tensor.compare
        if rule is not None and (rule.mode == "set" or (rule.mode == "index" and rule.ties == "any")):
            continue
        said = truth.arrays[tensor.name]
        values = found.get(tensor.name)
        if values is None or set(values) != set(np.ndindex(said.shape)) or not said.size:
            continue
        own = np.array([values[place] for place in np.ndindex(said.shape)], dtype=np.float64).reshape(
            said.shape
        )
        live = _comparable(tensor, own, said)
        mask = truth.defined.get(tensor.name)
        if mask is not None:
            live &= mask
        wrong = live & _apart(tensor, own, said, live, largest)
        if wrong.any():
            index = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
            place = f"{tensor.name}[{', '.join(map(str, index))}]" if index else tensor.name
            text = (
                f"the IR's formulas contradict the reference at sizes {case.dims}, regime {case.regime}: {place} is "
                f"{float(said[index]):.9g} by the reference and {own[index]:.9g} by the formulas "
                f"({int(wrong.sum())} of {int(live.sum())} elements differ)"
            )
            count, compared = int(wrong.sum()), int(live.sum())
            return Contradiction(
                case, tensor.name, index, float(said[index]), float(own[index]), count, compared,
                not ir.edge_rules or 2 * count > compared, text,
            )  # fmt: skip
    return None


def _comparable(tensor: Tensor, own: Array, said: Array) -> Array:
    """Return the elements of which a formula can speak: finite, and in the range of an integer type."""
    with np.errstate(all="ignore"):
        live = np.isfinite(own) & np.isfinite(said.astype(np.float64))
        if tensor.dtype in FLOATS or tensor.dtype == "bool":
            return np.asarray(live)
        info = np.iinfo(np_dtype(tensor.dtype))
        whole = own == np.rint(own)
        return np.asarray(live & whole & (np.abs(own) < _EXACT) & (own >= info.min) & (own <= info.max))


def _apart(tensor: Tensor, own: Array, said: Array, live: Array, largest: float) -> Array:
    """Return where they differ by more than float64 rounding of values as large as `largest` explains."""
    truth = said.astype(np.float64)
    if tensor.dtype == "bool":
        return np.asarray((own != 0) != (truth != 0))
    if tensor.dtype not in FLOATS:
        return np.asarray(own != truth)
    scale = float(np.max(np.abs(truth[live]))) if live.any() else 0.0
    with np.errstate(all="ignore"):
        return np.asarray(~(np.abs(own - truth) <= 1e-7 * np.abs(truth) + 1e-9 * scale + 1e-13 * largest))
