"""The judge is judged first: planted wrong outputs must be rejected, honest ones accepted."""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from cuda_harness.state.names import FLOATS
from cuda_harness.state.suite import Case, SuiteProof
from cuda_harness.tools.synthesize.emulate import (
    BITS,
    FLOAT32_FOR_64,
    allowed,
    forbidden,
    in_float32,
    narrowed,
    with_narrow_products,
)
from cuda_harness.tools.synthesize.misreadings import misreadings, probes, without_last_taps
from cuda_harness.tools.synthesize.plants import MAKERS, Maker, Planted, copies, permuted_ties, scaled
from cuda_harness.tools.synthesize.reply import Question, ReferenceFault
from cuda_harness.tools.synthesize.shapes import elements
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.synthesize.trial import EQUALS_TRUTH, Make, Trial
from cuda_harness.tools.synthesize.truths import Compare, unusable

__all__ = ["EQUALS_TRUTH", "prove"]

Array = NDArray[Any]
Inputs = Mapping[str, Mapping[str, Array]]
FLOAT32 = "float32 arithmetic"
EVERY_WINDOW = "one tap missing of every window"
OTHER_TIES = "permuted ties"
REFUSED = "the reference refuses inputs that are read so"
_FIRST = 4
_FIRST_ELEMENTS = 4_000
"""Cases, and elements of each, on which the reference is asked about misread inputs first."""
_MORE = 8
"""Further cases for misreadings that were right or within rounding in the first ones."""
_PROBES = 40
"""Elements of an input that are left out one by one."""
_ATTEMPTS = 2


def prove(suite: Suite, compare: Compare, *, tunables: Sequence[int] = ()) -> SuiteProof | ReferenceFault:
    """Return whether the suite rejects what is wrong and accepts what is honest.

    A plant counts as rejected by the first case that rejects it; one that differs from the truth by no more than
    rounding in every case (a transposed symmetric result) is skipped with that reason. What slips through makes the
    suite take up further cases of other data and sizes, twice at most; they stay in it.
    """
    cases = [*suite.cases("values", tunables=tunables), *suite.cases("shapes", tunables=tunables)[:8]]
    cases = [c for c in cases if 0 not in c.dims.values()] or cases
    proof = _prove(suite, compare, cases)
    for number in range(1, _ATTEMPTS + 1):
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
        return SuiteProof(
            passed=False, skipped={"all": next(iter(suite.skipped.values()), "there is no case")}
        )
    trial = Trial(suite.ir, live, answers, {c.id: suite.inputs(c) for c in live}, compare)
    for name, maker in {**MAKERS, "scaled": scaled(suite.ir)}.items():
        trial.plant(name, _from(maker))
    for name, made in copies(suite.ir, live, answers, trial.inputs):
        trial.plant(name, _given(made))
    trial.plant(OTHER_TIES, _given(permuted_ties(suite.ir, live, answers, trial.inputs, free=False)))
    refused = _misread(suite, trial)
    _without_taps(suite, trial)
    _forbidden(suite, trial)
    honest, unmeasured = _honest(suite, trial)
    skipped = {**trial.skipped(), **refused, **unmeasured}
    plants = _excused(suite, trial, skipped)
    passed = bool(plants) and all(p.rejected for p in plants) and all(honest.values())
    return SuiteProof(passed=passed, plants=plants, skipped=skipped, honest=honest)


def _from(maker: Maker) -> Make:
    return lambda _case, _tensor, right: maker(right)


def _given(made: Planted) -> Make:
    return lambda case, tensor, _right: made.get((case.id, tensor.name))


def _excused(suite: Suite, trial: Trial, skipped: dict[str, str]) -> tuple[Any, ...]:
    """Return the plants without those of fewer bits that a tolerance stated in the IR admits."""
    stated = [
        t
        for t in suite.ir.outputs
        if t.compare and (t.compare.rtol is not None or t.compare.atol is not None)
    ]
    labels = {trial.label(n, t) for t in stated for n in (*BITS, FLOAT32_FOR_64)}
    excused = {p.name for p in trial.plants() if p.name in labels and not p.rejected}
    skipped |= dict.fromkeys(excused, "the tolerance that the IR states admits it")
    return tuple(p for p in trial.plants() if p.name not in excused)


# -------------------------------------------------------------------------------------- misreadings


def _misread(suite: Suite, trial: Trial) -> dict[str, str]:
    """Plant what the reference says of inputs that are read wrongly; return why some of it cannot be planted.

    A few small cases come first; what they have not rejected is asked in others.
    """
    first = _telling(trial)
    refused = _misread_in(suite, trial, first, None)
    names = {m.name for c in first for m in misreadings(suite.ir, suite.specs, c, trial.inputs[c.id])}
    names -= set(refused)
    rest = [c for c in trial.cases if c not in first]
    open_ = set(trial.undecided(sorted(names)))
    if open_ and rest:
        refused |= _misread_in(suite, trial, rest[:: -(-len(rest) // _MORE)], open_)
        passed = set(trial.passed(sorted(open_)))
        if passed:
            _misread_in(suite, trial, rest, passed)
    return refused


def _telling(trial: Trial) -> list[Case]:
    """Return a few small cases of different regimes, the largest of the small ones first."""
    small = [c for c in trial.cases if elements(trial.ir, c.dims) <= _FIRST_ELEMENTS]
    if not small:
        return sorted(trial.cases, key=lambda c: elements(trial.ir, c.dims))[:2]
    small.sort(key=lambda c: -elements(trial.ir, c.dims))
    plain = [c for c in small if c.regime == "normal"]
    others = [c for c in small if c.regime in {"ties", "negated", "sorted"}]
    chosen = [*plain[:2], *others[:1], *plain[2:], *others[1:], *small]
    return list({c.id: c for c in chosen}.values())[:_FIRST]


def _misread_in(suite: Suite, trial: Trial, cases: Sequence[Case], only: set[str] | None) -> dict[str, str]:
    asked = [
        (c, m)
        for c in cases
        for m in misreadings(suite.ir, suite.specs, c, trial.inputs[c.id])
        if only is None or m.name in only
    ]
    truths = suite.ask_each(suite.reference, [m.question for _, m in asked]) if asked else []
    if isinstance(truths, ReferenceFault):
        return {
            m.name: f"the reference does not end on inputs that are read so: {truths.message}"
            for _, m in asked
        }
    made: dict[str, Planted] = {}
    for (case, reading), truth in zip(asked, truths, strict=True):
        found = made.setdefault(reading.name, {})
        if truth is not None:
            found |= {(case.id, name): value for name, value in reading.back(truth).items()}
    refused = {}
    for name, found in made.items():
        if found:
            trial.plant(name, _given(found), cases)
        elif only is None:
            refused[name] = REFUSED
    return refused


def _without_taps(suite: Suite, trial: Trial) -> None:
    """Plant, in a small case, outputs each of which misses the last element of an input that it depends on."""
    case = min(
        (c for c in trial.cases if min(c.dims.values(), default=3) > 2 or len(trial.cases) == 1),
        key=lambda c: (c.regime != "normal", elements(trial.ir, c.dims)),
        default=trial.cases[0],
    )
    tensors = [t for t in suite.ir.inputs if not t.unused][:3]
    questions = [list(probes(suite.specs, t, case, trial.inputs[case.id], _PROBES)) for t in tensors]
    truths = (
        suite.ask_each(suite.reference, [q for part in questions for q in part]) if any(questions) else []
    )
    if isinstance(truths, ReferenceFault):
        return
    at = 0
    for tensor, part in zip(tensors, questions, strict=True):
        told = [t for t in truths[at : at + len(part)] if t is not None]
        at += len(part)
        made: Planted = {}
        for output in suite.ir.outputs:
            own = trial.answers[case.id].arrays[output.name]
            found = without_last_taps(own, [t.arrays[output.name] for t in told])
            if found is not None:
                made[case.id, output.name] = found
        trial.plant(f"{EVERY_WINDOW} of {tensor.name}", _given(made), [case])


# ---------------------------------------------------------------------------------------- precision


def _forbidden(suite: Suite, trial: Trial) -> None:
    """Plant arithmetic of fewer bits than `strict` grants, in the outputs that can show it."""
    ir = suite.ir
    shown = {t.name for t in ir.outputs if t.dtype in {"float32", "float64"}}
    texts = {n: with_narrow_products(suite.reference, BITS[n]) or suite.reference for n in forbidden(ir)}
    if ir.numerics.precision == "strict" and {t.dtype for t in ir.tensors if t.dtype in FLOATS} == {
        "float64"
    }:
        texts[FLOAT32_FOR_64] = in_float32(suite.reference)
    first = _telling(trial)
    rest = [c for c in trial.cases if c not in first]
    for name, text in texts.items():
        for cases in (first, rest):
            made = _emulated(suite, trial, name, text, cases)
            trial.plant(name, _given({k: v for k, v in made.items() if k[1] in shown}), cases)
            if not trial.undecided([name]):
                break


def _emulated(suite: Suite, trial: Trial, name: str, text: str, cases: Sequence[Case]) -> Planted:
    """Return what a reference of fewer bits says, where it answers and its answer can be held."""
    questions = [
        Question(
            {t.name: narrowed(name, t.dtype, trial.inputs[c.id][t.name]) for t in suite.ir.inputs},
            c.dims,
            c.scalars,
        )
        for c in cases
    ]
    truths = suite.ask_each(text, questions) if questions else []
    if isinstance(truths, ReferenceFault):
        return {}
    return {
        (c.id, n): a
        for c, t in zip(cases, truths, strict=True)
        if t is not None and unusable(suite.ir, t) is None
        for n, a in t.arrays.items()
    }


def _honest(suite: Suite, trial: Trial) -> tuple[dict[str, bool], dict[str, str]]:
    """Return which honest outputs are accepted, and why others could not be made."""
    honest = {"rounded truth": trial.accepts({c.id: trial.answers[c.id].arrays for c in trial.cases})}
    unmeasured = {}
    free = permuted_ties(suite.ir, trial.cases, trial.answers, trial.inputs, free=True)
    if free:
        honest["other ties"] = trial.accepts(_whole(trial, free))
    floats = {t.dtype for t in suite.ir.tensors if t.dtype in FLOATS}
    if not floats or "float64" in floats:
        unmeasured[FLOAT32] = (
            "the problem is one of float64" if floats else "no tensor holds floating-point numbers"
        )
    else:
        single = in_float32(suite.reference)
        texts = {FLOAT32: single} | {
            n: with_narrow_products(single, BITS[n]) or single for n in allowed(suite.ir)
        }
        for name, text in texts.items():
            made = _emulated(suite, trial, name, text, trial.cases)
            if made:
                honest[name] = trial.accepts(_whole(trial, made))
            else:
                unmeasured[name] = "the reference cannot be evaluated in float32"
    return honest, unmeasured


def _whole(trial: Trial, made: Planted) -> dict[str, dict[str, Array]]:
    """Return outputs by case: those that were made, the others as they are right."""
    found: dict[str, dict[str, Array]] = {}
    for (case, name), value in made.items():
        found.setdefault(case, dict(trial.answers[case].arrays))[name] = value
    return found
