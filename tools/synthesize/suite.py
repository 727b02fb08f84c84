"""A suite: all that judges kernels of one IR; its cases, their inputs and truths, and who vouches for them."""

import contextlib
import json
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import FLOATS
from cuda_harness.state.results import StageName
from cuda_harness.state.serde import sha256
from cuda_harness.state.suite import Case, Inputs, Property
from cuda_harness.tools.synthesize.cases import CasePlan
from cuda_harness.tools.synthesize.emulate import all_in_float32, narrowing
from cuda_harness.tools.synthesize.formula import Vote, value_at, vote
from cuda_harness.tools.synthesize.inputs import draw
from cuda_harness.tools.synthesize.properties import base_id, changed, grid, second, stored_properties
from cuda_harness.tools.synthesize.quorum import Disagreement, against_formulas, smallest_difference
from cuda_harness.tools.synthesize.reference import Question, ReferenceFault, ReferenceRunner, Truth
from cuda_harness.tools.synthesize.shapes import Sizes, elements, scaled_target
from cuda_harness.tools.synthesize.truths import (
    PERTURBED,
    Answer,
    Compare,
    LargeTruths,
    TruthStore,
    answer_of,
    coarse_forms,
    lent,
    nearby,
    perturbed,
    unusable,
)

__all__ = ["Answer", "Compare", "Disagreement", "Suite"]

Array = NDArray[Any]
T = TypeVar("T")
_BATCH_BYTES = 1 << 30
"""Bytes of float64 that one child is asked for at a time."""
_LARGE_BYTES = 64 << 20
"""Truths beyond this are computed one at a time in a run, and once."""
_FORMS = 1 + PERTURBED
_NEARBY = 6
"""Inputs near a case's at which float32 arithmetic is held against the truth."""


class Suite:
    """All that judges kernels of one IR; holds no kernel and sees none."""

    def __init__(
        self,
        ir: KernelIR,
        reference: str,
        *,
        runner: ReferenceRunner,
        seed: int,
        specs: Inputs | None = None,
        loops: str | None = None,
        folder: Path | None = None,
        properties: Sequence[Property] | None = None,
        large: LargeTruths | None = None,
    ) -> None:
        """Take the references as they are; nothing runs yet.

        Args:
            ir: What is computed.
            reference: Text of the authoritative reference.
            runner: Runs references in contained children.
            seed: Secret of this run; every case derives its own from it.
            specs: Domains of inputs.
            loops: A second, independent reference for tiny shapes.
            folder: Where truths are kept between attempts; `None`: in memory only.
            properties: What must hold of outputs; `None`: those that lie in the folder.
            large: Holds large truths for all suites of a run; `None`: each suite asks for its own.
        """
        self.ir, self.reference, self.loops = ir, reference, loops
        self.specs = specs or Inputs()
        self.seed = seed
        self._runner = runner
        self._folder = folder
        self._plan = CasePlan(ir, self.specs, seed)
        self._large = large or LargeTruths()
        self._store = TruthStore(ir, folder, self._identity, self._large)
        self._asked_s = 0.0
        self.skipped: dict[str, str] = {}
        """Case id -> why it is not asked."""
        self._vote: Vote | None = None
        self.deadline: float | None = None
        """When the time for judging is over (`time.monotonic`), `None`: each evaluation has its own limit only."""
        self._further = self._stored("further.json", lambda d: tuple(Case.model_validate(c) for c in d))
        self._left_out = self._stored("left_out.json", lambda d: {str(key) for key in d})
        self.properties = self._stored_properties() if properties is None else tuple(properties)

    # ---- cases ----
    def cases(
        self, stage: StageName, *, tunables: Iterable[int] = (), target: Sizes | None = None
    ) -> tuple[Case, ...]:
        """Return the cases of a stage; `target` replaces the target sizes where they must be scaled."""
        found = self._plan.cases(stage, tunables=tunables, target=target)
        return (*found, *self._further) if stage == "values" else found

    def scaled_target(self, budget: int) -> Sizes:
        """Return target sizes whose work fits `budget`."""
        return scaled_target(self.ir, budget)

    def further_cases(self, number: int) -> list[Case]:
        """Return cases of other data and sizes for a suite that is too weak; `number` counts the attempts from 1."""
        return self._plan.further(number)

    def take_up(self, cases: Sequence[Case]) -> None:
        """Make further cases part of stage `values`, here and in every later suite of the same folder."""
        self._further = (*self._further, *cases)
        self._keep("further.json", [c.model_dump(mode="json") for c in self._further])

    def left_out(self, cases: Iterable[Case]) -> list[Case]:
        """Return those of the cases by which nobody is judged."""
        return [c for c in cases if self._is_left_out(c)]

    def leave_out(self, cases: Sequence[Case]) -> None:
        """Judge nobody by these cases, here and in every later suite of the same folder."""
        self._left_out |= {self._identity(c) for c in cases}
        self._keep("left_out.json", sorted(self._left_out))

    def _keep(self, name: str, value: Any) -> None:  # noqa: ANN401 - JSON
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / name).write_text(json.dumps(value))

    def _stored(
        self, name: str, read: Callable[[Any], T], *, remedy: str = "the suite is then proved anew"
    ) -> T:
        """Return what `read` makes of a file of the folder, of an empty list where there is none."""
        path = self._folder / name if self._folder is not None else None
        if path is None or not path.is_file():
            return read([])
        try:
            return read(json.loads(path.read_text()))
        except (OSError, ValueError, TypeError, RecursionError) as exc:
            msg = f"{str(path)!r} is damaged: {exc}"
            raise ConfigError(msg, remedy=f"delete it: {remedy}") from exc

    def _stored_properties(self) -> tuple[Property, ...]:
        where = str(self._folder / "properties.json") if self._folder is not None else ""
        remedy = "the properties are then not checked"
        return self._stored("properties.json", lambda d: stored_properties(d, where=where), remedy=remedy)

    def property_bases(self) -> list[Case]:
        """Return the cases whose inputs metamorphic properties change; one for each size of stage `values`."""
        return self._plan.bases()

    # ---- inputs and truths ----
    def inputs(self, case: Case) -> dict[str, Array]:
        """Return the inputs of a case in their exact dtypes; raises ConfigError."""
        return self._changed_inputs(case) if case.change else draw(self.ir, self.specs, case)

    def _changed_inputs(self, case: Case) -> dict[str, Array]:
        """Return the inputs of a property's case: its base on a grid, one of them changed."""
        base = case.model_copy(update={"id": base_id(case), "change": "base", "changed": ""})
        drawn = draw(self.ir, self.specs, base)
        for tensor in self.ir.inputs:
            if tensor.dtype in FLOATS and tensor.name not in self.specs.specs:
                key = zlib.crc32(f"{tensor.name}:grid:{base.id}".encode())
                rng = np.random.default_rng(np.random.SeedSequence([base.seed, key]))
                drawn[tensor.name] = grid(tensor, tensor.dims(case.dims), rng)
        name, _, output = case.changed.partition(":")
        if case.change == "fed":
            answers = self.answers([base])
            if isinstance(answers, ReferenceFault) or base.id not in answers:
                msg = f"there is no truth of {output!r} to feed back"
                raise ConfigError(msg, remedy="mend the reference")
            with np.errstate(all="ignore"):
                drawn[name] = answers[base.id].arrays[output].astype(drawn[name].dtype)
        elif name:
            tensor = self.ir.tensor(name)
            drawn[name] = changed(case, tensor, drawn[name], second(case, tensor))
        return drawn

    def answers(
        self, cases: Sequence[Case], *, deadline_s: float = 120.0
    ) -> dict[str, Answer] | ReferenceFault:
        """Return the truth of each case by id; cases whose truth cannot be represented are left out with a reason."""
        if any(8 * elements(self.ir, c.dims) > _LARGE_BYTES for c in self._missing(cases)):
            with self._large.asking:
                found = self._evaluate(self._missing(cases), deadline_s)
        else:
            found = self._evaluate(self._missing(cases), deadline_s)
        if isinstance(found, ReferenceFault):
            return found
        told = {c.id: self._store.get(c) for c in cases if not self._is_left_out(c)}
        return {key: answer for key, answer in told.items() if answer is not None}

    def _missing(self, cases: Sequence[Case]) -> list[Case]:
        wanted = [c for c in cases if c.id not in self.skipped and not self._is_left_out(c)]
        return [c for c in wanted if self._store.get(c) is None]

    def _is_left_out(self, case: Case) -> bool:
        return bool(self._left_out) and self._identity(case) in self._left_out

    def ask(
        self, source: str, questions: Sequence[Question], *, deadline_s: float = 60.0
    ) -> list[Truth] | ReferenceFault:
        """Return what a reference says, within the time that is left for judging."""
        found: list[Truth] = []
        for part in self._parts(questions):
            left = self._left(deadline_s)
            if left <= 0:
                return self._over()
            began = time.monotonic()
            truths = self._runner.evaluate(source, self.ir, part, deadline_s=left)
            self._asked_s += time.monotonic() - began
            if isinstance(truths, ReferenceFault):
                if truths.kind == "hung" and left < deadline_s:
                    return self._over()
                return truths if truths.case is None else replace(truths, case=truths.case + len(found))
            found += truths
        return found

    def ask_each(
        self, source: str, questions: Sequence[Question], *, deadline_s: float = 20.0
    ) -> list[Truth | None] | ReferenceFault:
        """Return what a text says of each question, `None` of those that it refuses; a fault where it ends for all."""
        found: list[Truth | None] = []
        for part in self._parts(questions):
            left = self._left(deadline_s)
            if left <= 0:
                return self._over()
            began = time.monotonic()
            truths = self._runner.evaluate_each(source, self.ir, part, deadline_s=left)
            self._asked_s += time.monotonic() - began
            if isinstance(truths, ReferenceFault):
                return self._over() if truths.kind == "hung" and left < deadline_s else truths
            found += truths
        return found

    def _over(self) -> ReferenceFault:
        text = f"the time for judging is over before the suite is proved: the reference took {self._asked_s:.0f} s of it"
        return ReferenceFault("resources", text)

    def _left(self, deadline_s: float) -> float:
        return deadline_s if self.deadline is None else min(deadline_s, self.deadline - time.monotonic())

    def _parts(self, questions: Sequence[Question]) -> Iterator[list[Question]]:
        """Yield the questions in batches of bounded memory; a single one may exceed it."""
        part: list[Question] = []
        held = 0
        sizes: dict[tuple[int, ...], int] = {}
        for question in questions:
            key = tuple(question.dims.values())
            if key not in sizes:
                sizes[key] = 8 * elements(self.ir, question.dims)
            size = sizes[key]
            if part and held + size > _BATCH_BYTES:
                yield part
                part, held = [], 0
            part.append(question)
            held += size
        if part or not questions:
            yield part

    def _evaluate(self, cases: Sequence[Case], deadline_s: float) -> ReferenceFault | None:
        if not cases:
            return None
        moving = any(t.dtype in FLOATS for t in self.ir.inputs)
        questions = []
        for case in cases:
            inputs = self.inputs(case)
            questions.append(Question(inputs, case.dims, case.scalars))
            moved = [perturbed(self.ir, inputs, case, k + 1) for k in range(PERTURBED)] if moving else []
            questions += [Question(p, case.dims, case.scalars) for p in moved]
        truths = self.ask(self.reference, questions, deadline_s=deadline_s)
        truths = truths if moving else _thrice(truths)
        if isinstance(truths, ReferenceFault) and truths.case is not None and truths.case % _FORMS:
            # It refuses inputs that are wider than the tensor (it reads their bits, say): nothing is perturbed.
            plain = self.ask(self.reference, questions[::_FORMS], deadline_s=deadline_s)
            if not isinstance(plain, ReferenceFault):
                truths = _thrice(plain)
        if isinstance(truths, ReferenceFault):
            if truths.case is None:
                return truths
            blamed = cases[truths.case // _FORMS]
            text = f"{truths.message} [at {blamed.dims}, regime {blamed.regime}]"
            return ReferenceFault(truths.kind, text, truths.case // _FORMS)
        coarse = self._coarse(cases, questions[::_FORMS] if moving else questions)
        for index, case in enumerate(cases):
            truth, *shifted = truths[_FORMS * index : _FORMS * (index + 1)]
            why = unusable(self.ir, truth)
            if why is not None:
                self.skipped[case.id] = why
                continue
            self._store.keep(case, answer_of(self.ir, truth, shifted, coarse.get(case.id, ())))
        return None

    def _coarse(self, cases: Sequence[Case], plain: Sequence[Question]) -> dict[str, list[Truth | None]]:
        """Return, by case, what arithmetic of fewer bits may make of it where the policy allows that."""
        forms = [coarse_forms(self.ir, q, c) for q, c in zip(plain, cases, strict=True)]
        questions = [q for part in forms for q in part]
        told = self.ask_each(narrowing(self.reference), questions) if questions else []
        if isinstance(told, ReferenceFault):
            return {}
        rest = iter(told)
        return {c.id: [next(rest) for _ in part] for c, part in zip(cases, forms, strict=True)}

    def lending(self, case: Case, answer: Answer) -> Answer | None:
        """Return the answer with the error that float32 arithmetic makes near this case, `None` where it cannot be told.

        A single element whose own terms cancel (1 + tanh(x) near -1) is less exact than its size and its sensitivity to
        the inputs tell. Asked when outputs are outside the tolerance, before they are called wrong.
        """
        floats = {t.dtype for t in self.ir.tensors if t.dtype in FLOATS}
        if not floats or "float64" in floats:
            return None
        inputs = self.inputs(case)
        near = [nearby(self.ir, inputs, case, k) for k in range(_NEARBY)]
        questions = [Question(n, case.dims, case.scalars) for n in near]
        large = 8 * elements(self.ir, case.dims) > _LARGE_BYTES
        with self._large.asking if large else contextlib.nullcontext():
            exact = self.ask_each(self.reference, questions)
            single = self.ask_each(all_in_float32(self.reference), questions)
        if isinstance(exact, ReferenceFault) or isinstance(single, ReferenceFault):
            return None
        return lent(self.ir, answer, exact, single)

    def _identity(self, case: Case) -> str:
        """Return the hash of all that a case's truth depends on."""
        return sha256({"case": case, "ir": self.ir, "reference": self.reference, "specs": self.specs, "v": 3})

    # ---- quorum ----
    def quorum_cases(self) -> list[Case]:
        """Return tiny cases over all regimes, the smallest first."""
        return self._plan.quorum()

    def quorum(self, *, formulas: bool = True) -> Disagreement | ReferenceFault | None:
        """Return the smallest case in which the references differ, `None` when they agree.

        References that agree are held against the IR's formulas, where these can be evaluated.

        Args:
            formulas: Whether the formulas vote; not where someone has ruled that they are excused.

        Raises:
            ValueError: Without loops.
        """
        if self.loops is None:
            msg = "there is no second reference"
            raise ValueError(msg)
        cases = self.quorum_cases()
        questions = [Question(self.inputs(c), c.dims, c.scalars) for c in cases]
        first = self.ask(self.reference, questions)
        if isinstance(first, ReferenceFault):
            return ReferenceFault(first.kind, "the vectorised reference: " + first.message, first.case)
        second = self.ask(self.loops, questions)
        if isinstance(second, ReferenceFault):
            return ReferenceFault(second.kind, "the loop reference: " + second.message, second.case)
        given = {c.id: q.inputs for c, q in zip(cases, questions, strict=True)}
        found = smallest_difference(self.ir, cases, first, second, given)
        if found is not None:
            said = value_at(self.ir, found.case, self.inputs(found.case), found.output, found.index)
            return replace(found, formula=said)
        against = self._formulas(cases, first).against if formulas else None
        return None if against is None else against_formulas(against)

    def formula_vote(self) -> Vote | ReferenceFault:
        """Return what the IR's formulas say of the reference on tiny cases."""
        if self._vote is None:
            cases = self.quorum_cases()
            questions = [Question(self.inputs(c), c.dims, c.scalars) for c in cases]
            truths = self.ask(self.reference, questions)
            if isinstance(truths, ReferenceFault):
                return truths
            self._formulas(cases, truths)
        assert self._vote is not None  # noqa: S101 - `_formulas` has set it
        return self._vote

    def _formulas(self, cases: Sequence[Case], truths: Sequence[Truth]) -> Vote:
        told = {c.id: t for c, t in zip(cases, truths, strict=True)}
        self._vote = vote(self.ir, cases, {c.id: self.inputs(c) for c in cases}, told)
        return self._vote


def _thrice(truths: list[Truth] | ReferenceFault) -> list[Truth] | ReferenceFault:
    """Return answers to questions whose perturbed forms were not asked."""
    if isinstance(truths, ReferenceFault):
        return truths if truths.case is None else replace(truths, case=_FORMS * truths.case)
    return [t for t in truths for _ in range(_FORMS)]
