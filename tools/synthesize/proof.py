"""The judge is judged first: planted wrong outputs must be rejected, honest ones accepted."""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from cuda_harness.state.ir import Tensor
from cuda_harness.state.names import FLOATS
from cuda_harness.state.suite import Case, SuiteProof
from cuda_harness.tools.synthesize.asking import plant_misreadings, telling
from cuda_harness.tools.synthesize.emulate import (
    BITS,
    FLOAT32_FOR_64,
    allowed,
    emulation,
    in_float32,
    narrowing,
)
from cuda_harness.tools.synthesize.plants import (
    MAKERS,
    Maker,
    Planted,
    copies,
    is_free,
    permuted_ties,
    scaled,
)
from cuda_harness.tools.synthesize.reply import Question, ReferenceFault
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.synthesize.trial import EQUALS_TRUTH, Make, Trial, given
from cuda_harness.tools.synthesize.truths import Compare, unusable

__all__ = ["BEYOND_FLOAT", "EQUALS_TRUTH", "EVERYTHING", "prove"]

Array = NDArray[Any]
Inputs = Mapping[str, Mapping[str, Array]]
FLOAT32 = "float32 arithmetic"
OTHER_TIES = "permuted ties"
EVERYTHING = "every plant"
"""Marks, among what was skipped, an output that the suite does not see at all."""
BEYOND_FLOAT = "the reference itself, in the arithmetic that is allowed, is outside the tolerance"
"""Why a case is left out."""
_ATTEMPTS = 2
_ONE_IN = 16
"""Of so many cases one may be left out, where the arithmetic that the IR allows cannot bear its data."""


def prove(suite: Suite, compare: Compare, *, tunables: Sequence[int] = ()) -> SuiteProof | ReferenceFault:
    """Return whether the suite rejects what is wrong and accepts what is honest.

    A plant counts as rejected by the first case that rejects it; one that differs from the truth by no more than
    rounding in every case (a transposed symmetric result) is skipped with that reason. What slips through makes the
    suite take up further cases of other data and sizes, twice at most; they stay in it.
    """
    cases = [*suite.cases("values", tunables=tunables), *suite.cases("shapes", tunables=tunables)[:8]]
    cases = [c for c in cases if 0 not in c.dims.values() and c.regime != "zeros"] or cases
    total, left = len(cases), suite.left_out(cases)
    cases = [c for c in cases if c not in left]
    tried = _prove(suite, compare, cases)
    if not isinstance(tried, ReferenceFault) and _few_and_odd(tried[1], total, len(left)):
        fair = [c for c in cases if c not in tried[1]]
        again = _prove(suite, compare, fair)
        if not isinstance(again, ReferenceFault) and all(again[0].honest.values()):
            suite.leave_out(tried[1])
            left, cases, tried = [*left, *tried[1]], fair, (again[0], [])
    for number in range(1, _ATTEMPTS + 1):
        if isinstance(tried, ReferenceFault) or tried[0].passed or not all(tried[0].honest.values()):
            break
        more = suite.further_cases(number)
        stronger = _prove(suite, compare, [*cases, *more], newest=more)
        if isinstance(stronger, ReferenceFault):
            return stronger
        if sum(not p.rejected for p in stronger[0].plants) < sum(not p.rejected for p in tried[0].plants):
            suite.take_up(more)
            cases += more
            tried = stronger
    if isinstance(tried, ReferenceFault):
        return tried
    told = {f"case {c.id} ({c.regime} at {c.dims})": BEYOND_FLOAT for c in left}
    return tried[0].model_copy(update={"skipped": tried[0].skipped | told})


def _few_and_odd(unfair: Sequence[Case], total: int, gone: int) -> bool:
    """Return whether cases that reject honest arithmetic are so few and so special that the suite can do without them."""
    few = gone + len(unfair) <= total // _ONE_IN
    return bool(unfair) and few and all(c.regime != "normal" for c in unfair)


def _prove(
    suite: Suite, compare: Compare, cases: Sequence[Case], *, newest: Sequence[Case] = ()
) -> tuple[SuiteProof, list[Case]] | ReferenceFault:
    """Return the proof by some cases, and those of them whose data the arithmetic that is allowed cannot bear."""
    answers = suite.answers(cases)
    if isinstance(answers, ReferenceFault):
        return answers
    live = [c for c in cases if c.id in answers]
    if not live:
        why = next(iter(suite.skipped.values()), "there is no case")
        return SuiteProof(passed=False, skipped={"all": why}), []
    trial = Trial(suite.ir, live, answers, {c.id: suite.inputs(c) for c in live}, compare)
    for name, maker in {**MAKERS, "scaled": scaled(suite.ir)}.items():
        trial.plant(name, _from(maker))
    for name, made in copies(suite.ir, live, answers, trial.inputs):
        trial.plant(name, given(made))
    trial.plant(OTHER_TIES, _ties(trial, free=False), otherwise="it orders no equal values in any case")
    refused = plant_misreadings(suite, trial, newest)
    _coarser(suite, trial)
    honest, unmeasured, beyond = _honest(suite, trial)
    skipped = {**trial.skipped(), **refused, **unmeasured}
    plants = _excused(suite, trial, skipped)
    unseen = trial.unseen()
    skipped |= {f"{EVERYTHING} ({n})": "nothing wrong in it can be told from the truth" for n in unseen}
    passed = not unseen and all(p.rejected for p in plants) and all(honest.values())
    return SuiteProof(passed=passed, plants=plants, skipped=skipped, honest=honest), beyond


def _from(maker: Maker) -> Make:
    return lambda _case, _tensor, right: maker(right)


def _ties(trial: Trial, *, free: bool) -> Make:
    def make(case: Case, tensor: Tensor, _right: Array) -> Array | None:
        if is_free(tensor) is not free:
            return None
        return permuted_ties(trial.ir, tensor, trial.answers[case.id], trial.inputs[case.id])

    return make


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


# ---------------------------------------------------------------------------------------- precision


def _coarser(suite: Suite, trial: Trial) -> None:
    """Plant float32 arithmetic where all is float64 and the policy is strict."""
    ir = suite.ir
    if ir.numerics.precision != "strict" or {t.dtype for t in ir.tensors if t.dtype in FLOATS} != {"float64"}:
        return
    first = telling(trial)
    for cases in (first, [c for c in trial.cases if c not in first]):
        made = _emulated(suite, trial, in_float32(suite.reference), (FLOAT32_FOR_64,), cases)
        trial.plant(FLOAT32_FOR_64, given(made[FLOAT32_FOR_64]), cases)
        if not trial.undecided([FLOAT32_FOR_64]):
            return


def _emulated(
    suite: Suite, trial: Trial, text: str, names: Sequence[str], cases: Sequence[Case]
) -> dict[str, Planted]:
    """Return what a text of fewer bits says under each name, where it answers and its answer can be held."""
    made: dict[str, Planted] = {n: {} for n in names}
    asked = [(n, c) for n in names for c in cases]
    questions = [emulation(suite.ir, Question(trial.inputs[c.id], c.dims, c.scalars), n) for n, c in asked]
    truths = suite.ask_each(text, questions) if asked else []
    if isinstance(truths, ReferenceFault):
        return made
    for (name, case), truth in zip(asked, truths, strict=True):
        if truth is not None and unusable(suite.ir, truth) is None:
            made[name] |= {(case.id, n): a for n, a in truth.arrays.items()}
    return made


def _honest(suite: Suite, trial: Trial) -> tuple[dict[str, bool], dict[str, str], list[Case]]:
    """Return which honest outputs are accepted, why others could not be made, and where only arithmetic was the reason."""
    honest = {"rounded truth": not trial.rejecting({c.id: trial.answers[c.id].arrays for c in trial.cases})}
    choose = _ties(trial, free=True)
    chosen = {
        (c.id, t.name): choose(c, t, trial.answers[c.id].arrays[t.name])
        for t in suite.ir.outputs
        if is_free(t)
        for c in trial.cases
    }
    free = {key: value for key, value in chosen.items() if value is not None}
    if free:
        honest["other ties"] = not trial.rejecting(_whole(trial, free))
    floats = {t.dtype for t in suite.ir.tensors if t.dtype in FLOATS}
    if not floats or "float64" in floats:
        why = "the problem is one of float64" if floats else "no tensor holds floating-point numbers"
        return honest, {FLOAT32: why}, []
    single = in_float32(suite.reference)
    names = (FLOAT32, *allowed(suite.ir))
    made = _emulated(suite, trial, narrowing(single) if len(names) > 1 else single, names, trial.cases)
    derived = {t.name for t in suite.ir.outputs if _is_derived(t)}
    for name in names[1:]:  # an output with a rule of its own is bound by it, whatever the policy allows
        made[name] = {key: value for key, value in made[name].items() if key[1] in derived}
    sound = all(honest.values())
    rejecting = {n: trial.rejecting(_whole(trial, made[n])) for n in names if made[n]}
    honest |= {n: not cases for n, cases in rejecting.items()}
    beyond = [c for c in trial.cases if sound and any(c in cases for cases in rejecting.values())]
    why = (
        "the reference cannot be evaluated in float32"
        if derived
        else "the IR states how each output is compared"
    )
    return honest, {n: why for n in names if not made[n]}, beyond


def _is_derived(tensor: Tensor) -> bool:
    """Return whether an output's tolerance follows from the precision policy."""
    rule = tensor.compare
    if tensor.dtype not in FLOATS:
        return False
    return rule is None or (rule.mode in {"close", "set"} and rule.rtol is None and rule.atol is None)


def _whole(trial: Trial, made: Planted) -> dict[str, dict[str, Array]]:
    """Return outputs by case: those that were made, the others as they are right."""
    found: dict[str, dict[str, Array]] = {}
    for (case, name), value in made.items():
        found.setdefault(case, dict(trial.answers[case].arrays))[name] = value
    return found
