"""The judge is judged first: planted wrong outputs must be rejected, honest ones accepted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import FLOATS
from cuda_harness.state.suite import Case, Plant, SuiteProof
from cuda_harness.tools.execute.dtypes import np_dtype, to_reference
from cuda_harness.tools.synthesize.inputs import scalars_of
from cuda_harness.tools.synthesize.reference import Question, ReferenceFault, Truth
from cuda_harness.tools.synthesize.suite import Answer, Compare, Suite
from cuda_harness.tools.synthesize.truths import unusable

Array = NDArray[Any]
Maker = Callable[[Array], Array | None]
_PRECISION = "reduced precision"
EQUALS_TRUTH = "equals the truth in every case"
"""Why a plant is skipped that is no wrong output here."""


def _rolled(a: Array) -> Array | None:
    return np.roll(a.reshape(-1), 1).reshape(a.shape) if a.size > 1 else None


def _last(a: Array) -> Array | None:
    if not a.size:
        return None
    b = a.copy()
    if a.dtype.kind in "iu":  # the top bit of each byte: beyond any step that a rule allows
        b.reshape(-1)[-1:].view(np.uint8)[...] ^= 0x80
    else:
        b.reshape(-1)[-1] = ~b.reshape(-1)[-1] if a.dtype.kind == "b" else b.reshape(-1)[-1] + 1
    return b


def _last_row(a: Array) -> Array | None:
    if a.ndim < 2 or a.shape[0] < 2:
        return None
    b = a.copy()
    b[-1] = 0
    return b


def _halves(a: Array) -> Array | None:
    n = a.size // 2
    return np.concatenate([a.reshape(-1)[n:], a.reshape(-1)[:n]]).reshape(a.shape) if a.size > 1 else None


def _transposed(a: Array) -> Array | None:
    return (
        np.ascontiguousarray(np.swapaxes(a, -1, -2)).reshape(a.shape)
        if a.ndim >= 2 and min(a.shape[-2:]) > 1
        else None
    )


def _duplicated(a: Array) -> Array | None:
    return np.broadcast_to(a[:1], a.shape).copy() if a.ndim >= 1 and a.shape[0] > 1 else None


def _reversed(a: Array) -> Array | None:
    return np.flip(a.reshape(-1)).reshape(a.shape) if a.size > 1 else None


def _last_tile(a: Array) -> Array | None:
    if a.size < 4:
        return None
    b = a.copy()
    b.reshape(-1)[-min(32, a.size // 2) :] = 0
    return b


def _last_column(a: Array) -> Array | None:
    if a.ndim < 2 or a.shape[-1] < 2:
        return None
    b = a.copy()
    b[..., -1] = 0
    return b


def _columns(a: Array) -> Array | None:
    return np.roll(a, 1, axis=-1) if a.ndim >= 2 and a.shape[-1] > 1 else None


MAKERS: dict[str, Maker] = {
    "zeros": np.zeros_like,
    "ones": np.ones_like,
    "mean": lambda a: np.full_like(a, a.mean()) if a.size and a.dtype.kind == "f" else None,
    "shifted by one": _rolled,
    "last element stale": _last,
    "last row stale": _last_row,
    "last column stale": _last_column,
    "last tile stale": _last_tile,
    "shifted along rows": _columns,
    "halves swapped": _halves,
    "transposed": _transposed,
    "duplicated rows": _duplicated,
    "reversed": _reversed,
    "sign": lambda a: -a if a.dtype.kind in "fi" else None,
}
"""How each planted wrong output is made of the right one; `None` where it has no meaning."""


def _from(maker: Maker) -> Callable[[Case, Array], Array | None]:
    return lambda _case, right: maker(right)


def _nothing(_case: Case, _right: Array) -> None:
    return None


def _scaled(ir: KernelIR) -> Maker:
    """Return a plant that is off by one percent, or by more where the declared arithmetic is coarser than that."""
    coarse = ir.numerics.precision != "strict" or any(
        t.dtype not in {"float32", "float64"} for t in ir.outputs if t.dtype in FLOATS
    )
    factor = 1.35 if coarse else 1.01
    return lambda a: a * factor if a.dtype.kind == "f" else None


def prove(suite: Suite, compare: Compare, *, tunables: Sequence[int] = ()) -> SuiteProof | ReferenceFault:
    """Return whether the suite rejects what is wrong and accepts what is honest.

    A plant counts as rejected by the first case that rejects it; one that equals the truth in every case (a transposed
    symmetric result) is skipped with that reason. What slips through makes the suite take up further cases of other
    data and sizes, twice at most; they stay in it.
    """
    cases = [*suite.cases("values", tunables=tunables), *suite.cases("shapes", tunables=tunables)[:8]]
    cases = [c for c in cases if 0 not in c.dims.values()] or cases
    proof = _prove(suite, compare, cases)
    for number in (1, 2):
        if isinstance(proof, ReferenceFault) or proof.passed or not all(proof.honest.values()):
            break
        more = suite.further_cases(number)
        stronger = _prove(suite, compare, [*cases, *more])
        if isinstance(stronger, ReferenceFault):
            return stronger
        if sum(not p.rejected for p in stronger.plants) < sum(not p.rejected for p in proof.plants):
            suite.take_up(more)
            cases += more
            proof = stronger
    return proof


def _prove(suite: Suite, compare: Compare, cases: Sequence[Case]) -> SuiteProof | ReferenceFault:
    answers = suite.answers(cases)
    if isinstance(answers, ReferenceFault):
        return answers
    live = [c for c in cases if c.id in answers]
    if not live:
        return SuiteProof(passed=False, skipped={"all": "every case leaves the range of the output's dtype"})
    inputs = {c.id: suite.inputs(c) for c in live}
    plants: list[Plant] = []
    skipped: dict[str, str] = {}
    for name, maker in {**MAKERS, "scaled": _scaled(suite.ir)}.items():
        _try(suite.ir, live, answers, inputs, compare, name, _from(maker), plants, skipped)
    _copies(suite.ir, live, answers, inputs, compare, plants, skipped)
    wrong = _evaluated(suite, live, inputs)
    if isinstance(wrong, ReferenceFault):
        return wrong
    wrong["other of equal values"] = _other_ties(suite.ir, live, answers, inputs)
    for name, found in wrong.items():
        if found:
            _try(suite.ir, live, answers, inputs, compare, name, _nothing, plants, skipped, by_output=found)
    _excuse(suite.ir, plants, skipped)
    honest = {"rounded truth": _accepts(suite.ir, live, answers, inputs, compare, answers)}
    emulated = _in_float32(suite, live, inputs)
    if emulated is None:
        skipped["float32 arithmetic"] = "the reference cannot be evaluated in float32"
    else:
        honest["float32 arithmetic"] = _accepts(suite.ir, live, answers, inputs, compare, emulated)
    passed = all(p.rejected for p in plants) and all(honest.values())
    return SuiteProof(passed=passed, plants=tuple(plants), skipped=skipped, honest=honest)


def _excuse(ir: KernelIR, plants: list[Plant], skipped: dict[str, str]) -> None:
    """Take reduced precision off the list where the IR states a tolerance of its own that admits it."""
    for tensor in ir.outputs:
        rule = tensor.compare
        if rule is None or (rule.rtol is None and rule.atol is None):
            continue
        label = _PRECISION if len(ir.outputs) == 1 else f"{_PRECISION} ({tensor.name})"
        for plant in [p for p in plants if p.name == label and not p.rejected]:
            plants.remove(plant)
            skipped[label] = "the tolerance that the IR states admits it"


def _other_ties(
    ir: KernelIR,
    cases: Sequence[Case],
    answers: Mapping[str, Answer],
    inputs: Mapping[str, Mapping[str, Array]],
) -> dict[tuple[str, str], Array]:
    """Return index outputs that name the last of equal values where the first is asked for."""
    found = {}
    for tensor in ir.outputs:
        rule = tensor.compare
        if rule is None or rule.mode != "index" or rule.ties != "lowest" or rule.of is None:
            continue
        for case in cases:
            values = inputs[case.id].get(rule.of)
            index = answers[case.id].arrays[tensor.name]
            if values is None or not values.size or not index.size:
                continue
            if index.size == 1 and rule.axis is None:
                values = values.reshape(-1)
            moved = np.moveaxis(values, -1 if rule.axis is None else rule.axis, -1)
            if index.size != moved.size // moved.shape[-1]:
                continue
            first = index.reshape(*moved.shape[:-1], 1).astype(np.int64)
            if first.min() < 0 or first.max() >= moved.shape[-1]:
                continue
            equal = moved == np.take_along_axis(moved, first, -1)
            last = moved.shape[-1] - 1 - np.argmax(equal[..., ::-1], axis=-1)
            found[case.id, tensor.name] = last.reshape(index.shape)
    return found


def _rounded(ir: KernelIR, answer: Answer) -> dict[str, Array]:
    with np.errstate(all="ignore"):
        return {t.name: answer.arrays[t.name].astype(np_dtype(t.dtype)) for t in ir.outputs}


def _accepts(
    ir: KernelIR,
    cases: Sequence[Case],
    answers: Mapping[str, Answer],
    inputs: Mapping[str, Mapping[str, Array]],
    compare: Compare,
    honest: Mapping[str, Answer],
) -> bool:
    """Return whether honest outputs, rounded to their types, are accepted in every case."""
    return all(
        compare(ir, c.dims, _rounded(ir, honest[c.id]), answers[c.id], inputs[c.id]) is None
        for c in cases
        if c.id in honest
    )


def _in_float32(
    suite: Suite, cases: Sequence[Case], inputs: Mapping[str, Mapping[str, Array]]
) -> dict[str, Answer] | None:
    """Return what the reference says when its float64 is float32, as an honest kernel computes; `None` where it cannot.

    The text is only rewritten, never run here: it runs contained, as the reference itself.
    """
    floats = {t.dtype for t in suite.ir.tensors if t.dtype in FLOATS}
    if "float64" in floats or not floats:
        return None
    text = suite.reference.replace("float64", "float32").replace("longdouble", "float32")
    questions = [Question(inputs[c.id], c.dims, c.scalars) for c in cases]
    truths = suite.ask(text, questions)
    if isinstance(truths, ReferenceFault):
        return None
    return {
        c.id: Answer(t.arrays, t.defined, {})
        for c, t in zip(cases, truths, strict=True)
        if unusable(suite.ir, t) is None
    }


def _try(
    ir: KernelIR, cases: Sequence[Case], answers: Mapping[str, Answer], inputs: Mapping[str, Mapping[str, Array]],
    compare: Compare, name: str, make: Callable[[Case, Array], Array | None], plants: list[Plant], skipped: dict[str, str],
    by_output: Mapping[tuple[str, str], Array] | None = None,
) -> None:  # fmt: skip
    """Plant one wrong output at a time, the others right, until a case rejects it."""
    for tensor in ir.outputs:
        label = name if len(ir.outputs) == 1 else f"{name} ({tensor.name})"
        tried = differs = False
        rejected = False
        for case in cases:
            answer = answers[case.id]
            right = _rounded(ir, answer)
            truth = right[tensor.name]
            wide = answer.arrays[tensor.name]
            with np.errstate(all="ignore"):
                made = by_output.get((case.id, tensor.name)) if by_output is not None else make(case, wide)
                if made is None or made.shape != truth.shape:
                    continue
                planted = made.astype(np_dtype(tensor.dtype))
            tried = True
            mask = answer.defined.get(tensor.name)
            same = _same(planted, truth, mask, is_set=bool(tensor.compare and tensor.compare.mode == "set"))
            if same:
                continue
            differs = True
            if compare(ir, case.dims, {**right, tensor.name: planted}, answer, inputs[case.id]) is not None:
                rejected = True
                break
        if not tried:
            skipped[label] = "has no meaning for this output"
        elif not differs:
            skipped[label] = EQUALS_TRUTH
        else:
            plants.append(Plant(name=label, rejected=rejected))


def _same(planted: Array, truth: Array, mask: Array | None, *, is_set: bool) -> bool:
    a, b = planted.astype(np.float64), truth.astype(np.float64)
    if mask is not None:
        a, b = a[mask], b[mask]
    if is_set:
        a, b = np.sort(a.reshape(-1)), np.sort(b.reshape(-1))
    scale = float(np.max(np.abs(b))) if b.size and np.isfinite(b).all() else 0.0
    with np.errstate(all="ignore"):
        return bool(np.all((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= 1e-12 * scale)))


def _copies(
    ir: KernelIR, cases: Sequence[Case], answers: Mapping[str, Answer], inputs: Mapping[str, Mapping[str, Array]],
    compare: Compare, plants: list[Plant], skipped: dict[str, str],
) -> None:  # fmt: skip
    """Plant each input that has an output's shape as that output."""
    for source in ir.inputs:
        made = {
            (c.id, t.name): to_reference(source.dtype, np.asarray(inputs[c.id][source.name])).astype(
                np.float64
            )
            for c in cases
            for t in ir.outputs
            if inputs[c.id][source.name].shape == answers[c.id].arrays[t.name].shape
        }
        if made:
            _try(
                ir,
                cases,
                answers,
                inputs,
                compare,
                f"copy of {source.name}",
                _nothing,
                plants,
                skipped,
                by_output=made,
            )


def _evaluated(
    suite: Suite, cases: Sequence[Case], inputs: Mapping[str, Mapping[str, Array]]
) -> dict[str, dict[tuple[str, str], Array]] | ReferenceFault:
    """Return wrong outputs that need the reference: reduced precision, identity scalars, another input in its place."""
    ir = suite.ir
    wanted: dict[str, list[Question]] = {}
    floats = [t for t in ir.inputs if t.dtype in {"float32", "float64"}]
    smooth = any(t.dtype in {"float32", "float64"} for t in ir.outputs)
    if ir.numerics.precision == "strict" and floats and smooth:
        wanted[_PRECISION] = [
            Question(
                {**inputs[c.id], **{t.name: _shortened(inputs[c.id][t.name]) for t in floats}},
                c.dims,
                c.scalars,
            )
            for c in cases
        ]
    for scalar in ir.scalars:
        if not scalar.fixed:
            identity: float | int | bool = (
                True if scalar.dtype == "bool" else 1.0 if scalar.dtype in FLOATS else 1
            )
            wanted[f"{scalar.name} ignored"] = [
                Question(inputs[c.id], c.dims, {**c.scalars, scalar.name: identity}) for c in cases
            ]
    found: dict[str, dict[tuple[str, str], Array]] = {}
    for name, questions in wanted.items():
        truths = suite.ask(suite.reference, questions)
        if isinstance(truths, ReferenceFault):
            continue  # the reference refuses such inputs: nothing to plant
        found[name] = {
            (c.id, t.name): truth.arrays[t.name]
            for c, truth in zip(cases, truths, strict=True)
            for t in ir.outputs
            if name != "reduced precision" or t.dtype in {"float32", "float64"}
        }
    return found


def _shortened(array: Array) -> Array:
    """Return values with 10 bits of mantissa, as TF32 and half arithmetic keep."""
    mantissa, exponent = np.frexp(np.asarray(array, dtype=np.float64))
    with np.errstate(all="ignore"):
        return np.asarray(np.ldexp(np.rint(mantissa * 2048) / 2048, exponent).astype(array.dtype))


def influence(suite: Suite, cases: Sequence[Case]) -> str | None:
    """Return which input or free scalar does not move the reference though it should, or moves it though it must not.

    A reference that differs from itself is named first; one that fails is left to whoever asks it for truths.
    """
    usable = [c for c in cases if 0 not in c.dims.values()][-5:]
    if not usable:
        return None
    given = [suite.inputs(c) for c in usable]
    plain = [Question(i, c.dims, c.scalars) for i, c in zip(given, usable, strict=True)]
    base = _asked(suite, plain)
    if base is None:
        return None
    again = _asked(suite, plain)
    if again is not None and not _alike(suite.ir, base, again):
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
