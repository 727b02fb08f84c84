"""Misread inputs are put to the reference, and what it says of them is planted."""

from collections.abc import Sequence

from cuda_harness.state.suite import Case
from cuda_harness.tools.synthesize.emulate import narrowing
from cuda_harness.tools.synthesize.misreadings import Misreading, misreadings, probes, without_last_taps
from cuda_harness.tools.synthesize.plants import Planted
from cuda_harness.tools.synthesize.reply import Question, ReferenceFault, Truth
from cuda_harness.tools.synthesize.shapes import elements
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.synthesize.trial import Trial, given

Asked = tuple[Case, Misreading, Question]
EVERY_WINDOW = "one tap missing of every window"
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


def plant_misreadings(suite: Suite, trial: Trial, newest: Sequence[Case]) -> dict[str, str]:
    """Plant what the reference says of inputs that are read wrongly; return why some of it cannot be planted.

    A few small cases come first; what they have not rejected is asked in others.
    """
    text = narrowing(suite.reference)
    cases = telling(trial)
    first = _affordable(trial, cases, len(_readings(suite, trial, cases[:1])))
    asked = _readings(suite, trial, first)
    taps = [_Taps(suite, trial, part) for part in (trial.cases, newest) if part]
    probed = [q for t in taps for q in t.questions]
    truths = suite.ask_each(text, [*(q for *_, q in asked), *probed])
    refused = {}
    if isinstance(
        truths, ReferenceFault
    ):  # one question ends it for all: what is in the domain is asked alone
        refused = {m.name: f"{REFUSED}: {truths.message}" for _, m, _ in asked if not m.domestic}
        asked = [(c, m, q) for c, m, q in asked if m.domestic]
        truths = suite.ask_each(text, [q for *_, q in asked])
        if isinstance(truths, ReferenceFault):
            return refused | {m.name: f"{REFUSED}: {truths.message}" for _, m, _ in asked}
    else:
        told = iter(truths[len(asked) :])
        for t in taps:
            t.plant(trial, [next(told) for _ in t.questions])
    planted = sorted(_plant(trial, asked, truths[: len(asked)], first))
    refused |= {m.name: REFUSED for _, m, _ in asked if m.name not in planted}
    rest = [c for c in trial.cases if c not in first]
    sample = _affordable(trial, rest[:: -(-len(rest) // _MORE) or 1], len(trial.undecided(planted)))
    _ask_more(suite, trial, text, trial.undecided(planted), sample)
    _ask_more(suite, trial, text, trial.passed(planted), [c for c in rest if c not in sample])
    return refused


def _ask_more(suite: Suite, trial: Trial, text: str, names: Sequence[str], cases: Sequence[Case]) -> None:
    """Plant what has not been rejected in further cases; a reference that ends there leaves it as it is."""
    asked = _readings(suite, trial, cases, set(names)) if names else []
    truths = suite.ask_each(text, [q for *_, q in asked]) if asked else []
    if not isinstance(truths, ReferenceFault):
        _plant(trial, asked, truths, cases)


def _affordable(trial: Trial, cases: Sequence[Case], questions: int) -> list[Case]:
    """Return the cases, in their order, that may be asked so many questions each; the first always."""
    kept: list[Case] = []
    left = _ASKED_ELEMENTS
    for case in cases:
        left -= questions * elements(trial.ir, case.dims)
        if left >= 0 or not kept:
            kept.append(case)
    return kept


def _readings(suite: Suite, trial: Trial, cases: Sequence[Case], only: set[str] | None = None) -> list[Asked]:
    """Return the misreadings of cases with their questions; of these names only, where some are given."""
    found: list[Asked] = []
    for case in cases:
        for reading in misreadings(suite.ir, suite.specs, case, trial.inputs[case.id]):
            question = reading.ask() if only is None or reading.name in only else None
            if question is not None:
                found.append((case, reading, question))
    return found


def _plant(
    trial: Trial, asked: Sequence[Asked], truths: Sequence[Truth | None], cases: Sequence[Case]
) -> set[str]:
    """Plant what was answered; return the names of which something was."""
    made: dict[str, Planted] = {}
    for (case, reading, _), truth in zip(asked, truths, strict=True):
        if truth is not None:
            found = made.setdefault(reading.name, {})
            found |= {(case.id, name): value for name, value in reading.back(truth).items()}
    for name, found in made.items():
        trial.plant(name, given(found), cases, otherwise="it cannot show in this output", subtle=True)
    return set(made)


def telling(trial: Trial) -> list[Case]:
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
                given(made),
                [self.case],
                otherwise="no element depends on two elements of it",
                subtle=True,
            )
