"""The judge is judged first: planted wrong outputs must be rejected, honest ones accepted."""

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from cuda_harness.state.ir import Tensor
from cuda_harness.state.names import FLOATS
from cuda_harness.state.suite import Case, SuiteProof
from cuda_harness.tools.synthesize.emulate import (
    BITS,
    FLOAT32_FOR_64,
    allowed,
    emulation,
    in_float32,
    narrowing,
)
from cuda_harness.tools.synthesize.misreadings import Misreading, misreadings, probes, without_last_taps
from cuda_harness.tools.synthesize.plants import MAKERS, Maker, Planted, copies, permuted_ties, scaled
from cuda_harness.tools.synthesize.reply import Question, ReferenceFault, Truth
from cuda_harness.tools.synthesize.shapes import elements
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.synthesize.trial import EQUALS_TRUTH, Make, Trial
from cuda_harness.tools.synthesize.truths import Compare, unusable

__all__ = ["EQUALS_TRUTH", "EVERYTHING", "prove"]

Array = NDArray[Any]
Inputs = Mapping[str, Mapping[str, Array]]
FLOAT32 = "float32 arithmetic"
EVERY_WINDOW = "one tap missing of every window"
OTHER_TIES = "permuted ties"
EVERYTHING = "every plant"
"""Marks, among what was skipped, an output that the suite does not see at all."""
REFUSED = "the reference refuses inputs that are read so"
_FIRST = 4
_FIRST_ELEMENTS = 4_000
"""Cases, and elements of each, on which the reference is asked about misread inputs first."""
_ASKED_ELEMENTS = 2_000_000
"""Elements of all questions about misread inputs together, beyond one case of each: large fixed sizes cost seconds."""
_MORE = 8
"""Further cases for misreadings that were right or within rounding in the first ones."""
_PROBES, _LEAST_PROBES = 40, 6
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
        stronger = _prove(suite, compare, [*cases, *more], newest=more)
        if isinstance(stronger, ReferenceFault):
            return stronger
        if sum(not p.rejected for p in stronger.plants) < sum(not p.rejected for p in proof.plants):
            suite.take_up(more)
            cases += more
            proof = stronger
    return proof


def _prove(
    suite: Suite, compare: Compare, cases: Sequence[Case], *, newest: Sequence[Case] = ()
) -> SuiteProof | ReferenceFault:
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
    ties = permuted_ties(suite.ir, live, answers, trial.inputs, free=False)
    trial.plant(OTHER_TIES, _given(ties), otherwise="it orders no equal values in any case")
    refused = _misread(suite, trial, newest)
    _coarser(suite, trial)
    honest, unmeasured = _honest(suite, trial)
    skipped = {**trial.skipped(), **refused, **unmeasured}
    plants = _excused(suite, trial, skipped)
    unseen = trial.unseen()
    skipped |= {f"{EVERYTHING} ({n})": "nothing wrong in it can be told from the truth" for n in unseen}
    passed = not unseen and all(p.rejected for p in plants) and all(honest.values())
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


def _misread(suite: Suite, trial: Trial, newest: Sequence[Case]) -> dict[str, str]:
    """Plant what the reference says of inputs that are read wrongly; return why some of it cannot be planted.

    A few small cases come first; what they have not rejected is asked in others.
    """
    text = narrowing(suite.reference)
    first = _telling(trial)[:1]
    asked = _readings(suite, trial, first)
    first = _affordable(trial, _telling(trial), len(asked))
    asked += _readings(suite, trial, first[1:])
    taps = [_Taps(suite, trial, part) for part in (trial.cases, newest) if part]
    probed = [q for t in taps for q in t.questions]
    truths = suite.ask_each(text, [*(m.question for _, m in asked), *probed])
    if isinstance(
        truths, ReferenceFault
    ):  # one question ends it for all: the scalars at least are within the domain
        refused = {m.name: f"{REFUSED}: {truths.message}" for _, m in asked if not m.domestic}
        asked = [(c, m) for c, m in asked if m.domestic]
        truths = suite.ask_each(text, [m.question for _, m in asked])
        if isinstance(truths, ReferenceFault):
            return refused | {m.name: f"{REFUSED}: {truths.message}" for _, m in asked}
    else:
        refused = {}
        told = iter(truths[len(asked) :])
        for t in taps:
            t.plant(trial, [next(told) for _ in t.questions])
    planted = _plant(trial, asked, truths[: len(asked)], first)
    refused |= {m.name: REFUSED for _, m in asked if m.name not in planted}
    rest = [c for c in trial.cases if c not in first]
    open_ = trial.undecided(sorted(planted))
    sample = _affordable(trial, rest[:: -(-len(rest) // _MORE)] if rest else [], len(open_))
    for names, cases in (
        (open_, sample),
        (trial.passed(sorted(planted)), [c for c in rest if c not in sample]),
    ):
        asked = _readings(suite, trial, cases, set(names)) if names else []
        truths = suite.ask_each(text, [m.question for _, m in asked]) if asked else []
        if not isinstance(truths, ReferenceFault):
            _plant(trial, asked, truths, cases)
    return refused


def _affordable(trial: Trial, cases: Sequence[Case], questions: int) -> list[Case]:
    """Return the cases, in their order, that may be asked so many questions each; the first always."""
    kept: list[Case] = []
    left = _ASKED_ELEMENTS
    for case in cases:
        left -= questions * elements(trial.ir, case.dims)
        if left >= 0 or not kept:
            kept.append(case)
    return kept


def _readings(
    suite: Suite, trial: Trial, cases: Sequence[Case], only: set[str] | None = None
) -> list[tuple[Case, Misreading]]:
    return [
        (c, m)
        for c in cases
        for m in misreadings(suite.ir, suite.specs, c, trial.inputs[c.id])
        if only is None or m.name in only
    ]


def _plant(
    trial: Trial,
    asked: Sequence[tuple[Case, Misreading]],
    truths: Sequence[Truth | None],
    cases: Sequence[Case],
) -> set[str]:
    """Plant what was answered; return the names of which something was."""
    made: dict[str, Planted] = {}
    for (case, reading), truth in zip(asked, truths, strict=True):
        if truth is not None:
            found = made.setdefault(reading.name, {})
            found |= {(case.id, name): value for name, value in reading.back(truth).items()}
    for name, found in made.items():
        trial.plant(name, _given(found), cases, otherwise="it cannot show in this output", subtle=True)
    return set(made)


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


class _Taps:
    """A small case without one element of an input each: which outputs depend on it, and what they are without it."""

    def __init__(self, suite: Suite, trial: Trial, cases: Sequence[Case]) -> None:
        known = [c for c in cases if c.id in trial.answers] or trial.cases
        wide = [c for c in known if min(c.dims.values(), default=3) > 2] or known
        self.case = min(wide, key=lambda c: (c.regime != "normal", elements(suite.ir, c.dims)))
        given = trial.inputs[self.case.id]
        self._tensors = [t for t in suite.ir.inputs if not t.unused][:3]
        affordable = _ASKED_ELEMENTS // max(elements(suite.ir, self.case.dims) * len(self._tensors), 1)
        most = min(_PROBES, max(_LEAST_PROBES, affordable))
        self._parts = [list(probes(suite.specs, t, self.case, given, most)) for t in self._tensors]
        self.questions = [q for part in self._parts for q in part]

    def plant(self, trial: Trial, truths: Sequence[Truth | None]) -> None:
        """Plant outputs each of whose elements misses the last input element that it depends on."""
        at = 0
        for tensor, part in zip(self._tensors, self._parts, strict=True):
            told = [t for t in truths[at : at + len(part)] if t is not None]
            at += len(part)
            made: Planted = {}
            for output in trial.ir.outputs:
                own = trial.answers[self.case.id].arrays[output.name]
                found = without_last_taps(own, [t.arrays[output.name] for t in told])
                if found is not None:
                    made[self.case.id, output.name] = found
            name = f"{EVERY_WINDOW} of {tensor.name}"
            trial.plant(
                name,
                _given(made),
                [self.case],
                otherwise="no element depends on two elements of it",
                subtle=True,
            )


# ---------------------------------------------------------------------------------------- precision


def _coarser(suite: Suite, trial: Trial) -> None:
    """Plant float32 arithmetic where all is float64 and the policy is strict."""
    ir = suite.ir
    if ir.numerics.precision != "strict" or {t.dtype for t in ir.tensors if t.dtype in FLOATS} != {"float64"}:
        return
    first = _telling(trial)
    for cases in (first, [c for c in trial.cases if c not in first]):
        made = _emulated(suite, trial, in_float32(suite.reference), (FLOAT32_FOR_64,), cases)
        trial.plant(FLOAT32_FOR_64, _given(made[FLOAT32_FOR_64]), cases)
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


def _honest(suite: Suite, trial: Trial) -> tuple[dict[str, bool], dict[str, str]]:
    """Return which honest outputs are accepted, and why others could not be made."""
    honest = {"rounded truth": trial.accepts({c.id: trial.answers[c.id].arrays for c in trial.cases})}
    free = permuted_ties(suite.ir, trial.cases, trial.answers, trial.inputs, free=True)
    if free:
        honest["other ties"] = trial.accepts(_whole(trial, free))
    floats = {t.dtype for t in suite.ir.tensors if t.dtype in FLOATS}
    if not floats or "float64" in floats:
        return honest, {
            FLOAT32: "the problem is one of float64" if floats else "no tensor holds floating-point numbers"
        }
    single = in_float32(suite.reference)
    names = (FLOAT32, *allowed(suite.ir))
    made = _emulated(suite, trial, narrowing(single) if len(names) > 1 else single, names, trial.cases)
    derived = {t.name for t in suite.ir.outputs if _is_derived(t)}
    for name in names[1:]:  # an output with a rule of its own is bound by it, whatever the policy allows
        made[name] = {key: value for key, value in made[name].items() if key[1] in derived}
    honest |= {n: trial.accepts(_whole(trial, made[n])) for n in names if made[n]}
    why = (
        "the reference cannot be evaluated in float32"
        if derived
        else "the IR states how each output is compared"
    )
    return honest, {n: why for n in names if not made[n]}


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
