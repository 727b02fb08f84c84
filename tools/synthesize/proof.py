"""The judge is judged first: planted wrong outputs must be rejected, honest ones accepted."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import FLOATS
from cuda_harness.state.suite import Case, Plant, SuiteProof
from cuda_harness.tools.execute.dtypes import np_dtype, to_reference
from cuda_harness.tools.synthesize.reference import Question, ReferenceFault, ReferenceRunner
from cuda_harness.tools.synthesize.suite import Answer, Compare, Suite

Array = NDArray[Any]
Maker = Callable[[Array], Array | None]


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


MAKERS: dict[str, Maker] = {
    "zeros": np.zeros_like,
    "ones": np.ones_like,
    "mean": lambda a: np.full_like(a, a.mean()) if a.size and a.dtype.kind == "f" else None,
    "shifted by one": _rolled,
    "last element stale": _last,
    "last row stale": _last_row,
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

    Plants are tried on few cases first and on all when they pass there; one that equals the truth in every case
    (a transposed symmetric result) is skipped with that reason.
    """
    cases = [*suite.cases("values", tunables=tunables), *suite.cases("shapes", tunables=tunables)[:8]]
    cases = [c for c in cases if 0 not in c.dims.values()] or cases
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
    for name, found in wrong.items():
        _try(
            suite.ir,
            live,
            answers,
            inputs,
            compare,
            name,
            _nothing,
            plants,
            skipped,
            by_output=found,
        )
    honest = {"rounded truth": _honest(suite.ir, live, answers, inputs, compare)}
    passed = all(p.rejected for p in plants) and all(honest.values())
    return SuiteProof(passed=passed, plants=tuple(plants), skipped=skipped, honest=honest)


def _rounded(ir: KernelIR, answer: Answer) -> dict[str, Array]:
    with np.errstate(all="ignore"):
        return {t.name: answer.arrays[t.name].astype(np_dtype(t.dtype)) for t in ir.outputs}


def _honest(
    ir: KernelIR,
    cases: Sequence[Case],
    answers: Mapping[str, Answer],
    inputs: Mapping[str, Mapping[str, Array]],
    compare: Compare,
) -> bool:
    return all(
        compare(ir, c.dims, _rounded(ir, answers[c.id]), answers[c.id], inputs[c.id]) is None for c in cases
    )


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
            skipped[label] = "equals the truth in every case"
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
    runner: ReferenceRunner = suite._runner  # noqa: SLF001 - same room
    wanted: dict[str, list[Question]] = {}
    floats = [t for t in ir.inputs if t.dtype in {"float32", "float64"}]
    smooth = any(t.dtype in {"float32", "float64"} for t in ir.outputs)
    if ir.numerics.precision == "strict" and floats and smooth:
        wanted["reduced precision"] = [
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
        truths = runner.evaluate(suite.reference, ir, questions)
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
    """Return which input or free scalar does not move the reference though it should, or moves it though it must not."""
    ir = suite.ir
    runner: ReferenceRunner = suite._runner  # noqa: SLF001 - same room
    usable = [c for c in cases if 0 not in c.dims.values()][-5:]
    base_inputs = [suite.inputs(c) for c in usable]
    base = runner.evaluate(
        suite.reference,
        ir,
        [Question(i, c.dims, c.scalars) for i, c in zip(base_inputs, usable, strict=True)],
    )
    if isinstance(base, ReferenceFault) or not usable:
        return None
    again = runner.evaluate(
        suite.reference,
        ir,
        [Question(i, c.dims, c.scalars) for i, c in zip(base_inputs, usable, strict=True)],
    )
    if not isinstance(again, ReferenceFault) and not all(
        np.array_equal(a.arrays[t.name], b.arrays[t.name], equal_nan=t.dtype in FLOATS)
        for a, b in zip(base, again, strict=True)
        for t in ir.outputs
    ):
        return "the reference is not deterministic: two evaluations of one case differ"
    for tensor in ir.inputs:
        others = [suite.inputs(c.model_copy(update={"seed": c.seed + 17})) for c in usable]
        asked = [
            Question({**i, tensor.name: o[tensor.name]}, c.dims, c.scalars)
            for i, o, c in zip(base_inputs, others, usable, strict=True)
        ]
        if all(
            np.array_equal(i[tensor.name], o[tensor.name]) for i, o in zip(base_inputs, others, strict=True)
        ):
            continue
        moved = runner.evaluate(suite.reference, ir, asked)
        if isinstance(moved, ReferenceFault):
            continue
        same = all(
            np.array_equal(a.arrays[t.name], b.arrays[t.name], equal_nan=t.dtype in FLOATS)
            for a, b in zip(base, moved, strict=True)
            for t in ir.outputs
        )
        if same and not tensor.unused:
            return f'input {tensor.name!r} does not matter to the reference; mark it "unused" or mend the reference'
        if not same and tensor.unused:
            return f"input {tensor.name!r} is marked unused but moves the reference"
    return None
