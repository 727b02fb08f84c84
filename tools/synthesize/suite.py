"""A suite: cases, their inputs and truths, the quorum of references, and the proof that it can tell right from wrong."""

import json
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import FLOATS
from cuda_harness.state.results import StageName
from cuda_harness.state.serde import sha256
from cuda_harness.state.suite import Case, Inputs, Property
from cuda_harness.tools.execute.dtypes import np_dtype, to_reference
from cuda_harness.tools.synthesize.formula import Vote, value_at, vote
from cuda_harness.tools.synthesize.inputs import draw, scalars_of
from cuda_harness.tools.synthesize.properties import base_id, changed, grid, second, stored_properties
from cuda_harness.tools.synthesize.reference import Question, ReferenceFault, ReferenceRunner, Truth
from cuda_harness.tools.synthesize.reference_child import describe_arrays, rebuild
from cuda_harness.tools.synthesize.regimes import regimes_of
from cuda_harness.tools.synthesize.shapes import (
    Sizes,
    elements,
    long_sizes,
    longest_sums,
    scaled_target,
    shapes,
    work,
)

Array = NDArray[Any]
TINY_WORK = 60_000
SHAPES_WORK = 3_000_000
VALUES_WORK = 200_000
LONG_WORK = 40_000_000
_PERTURBATION = 2.0**-24
_CACHE_BYTES = 256 << 20
_BATCH_BYTES = 1 << 30
"""Bytes of float64 that one child is asked for at a time."""


class Expected(Protocol):
    """What a comparison needs; `tools.verify.compare.Expected` is one."""

    arrays: dict[str, Array]
    defined: dict[str, Array]
    sensitivity: dict[str, Array]


@dataclass(frozen=True)
class Answer:
    """The truth of one case with what one roundoff in the inputs does to it."""

    arrays: dict[str, Array]
    defined: dict[str, Array]
    sensitivity: dict[str, Array]


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


Compare = Callable[
    [KernelIR, Mapping[str, int], Mapping[str, Array], Answer, Mapping[str, Array]], str | None
]
"""Returns why `got` is wrong, `None` when it is right."""


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
        """
        self.ir, self.reference, self.loops = ir, reference, loops
        self.specs = specs or Inputs()
        self.seed = seed
        self._runner = runner
        self._folder = folder
        self._answers: dict[str, Answer] = {}
        self.skipped: dict[str, str] = {}
        """Case id -> why it is not asked."""
        self._vote: Vote | None = None
        self.deadline: float | None = None
        """When the time for judging is over (`time.monotonic`), `None`: each evaluation has its own limit only."""
        self._further: tuple[Case, ...] = self._read_further()
        self.properties = self._read_properties() if properties is None else tuple(properties)

    # ---- cases ----
    def cases(
        self, stage: StageName, *, tunables: Iterable[int] = (), target: Sizes | None = None
    ) -> tuple[Case, ...]:
        """Return the cases of a stage; `target` replaces the target sizes where they must be scaled."""
        tunables = sorted({n for n in tunables if 1 < n <= 4096})
        if stage == "tiny":
            sizes = shapes(
                self.ir, [*tunables, 32], count=6, budget=6 * TINY_WORK, seed=self.seed, largest=700
            )
            return self._spread(stage, sizes, self._regimes()[:1] + ("ties",) * ("ties" in self._regimes()))
        if stage == "shapes":
            sizes = shapes(self.ir, [*tunables, 32, 1024], count=14, budget=SHAPES_WORK, seed=self.seed + 1)
            longer = [s for s in long_sizes(self.ir, budget=LONG_WORK) if s not in sizes]
            return tuple(self._case(stage, s, "normal") for s in [*sizes, *longer])
        if stage == "values":
            found = shapes(
                self.ir, tunables, count=8, budget=8 * VALUES_WORK, seed=self.seed + 2, largest=300
            )
            usable = [s for s in found if 0 not in s.values() and work(self.ir, s) <= VALUES_WORK] or found[
                :1
            ]
            sizes = [usable[len(usable) // 2], usable[-1]] if len(usable) > 1 else usable
            reach = [s for s in [longest_sums(self.ir, usable)] if s not in sizes]
            telling = [r for r in ("outlier", "peaks") if r in self._regimes()]
            return (
                *(self._case(stage, s, r) for r in self._regimes() for s in sizes),
                *(self._case(stage, s, r) for r in telling for s in reach),
                *self._further,
            )
        if stage == "target":
            return (self._case(stage, target or self.ir.target_dims, "normal"),)
        found = shapes(self.ir, tunables, count=6, budget=4 * VALUES_WORK, seed=self.seed + 3, largest=500)
        usable = [s for s in found if 0 not in s.values()] or found
        middle = usable[-1]
        return tuple(
            self._case(stage, middle, r, salt=i)
            for i, r in enumerate(("normal", "normal", self._regimes()[1 % len(self._regimes())]))
        )

    def scaled_target(self, budget: int) -> Sizes:
        """Return target sizes whose work fits `budget`."""
        return scaled_target(self.ir, budget)

    def further_cases(self, number: int) -> list[Case]:
        """Return cases of other data and sizes for a suite that is too weak; `number` counts the attempts from 1."""
        found = shapes(
            self.ir, (), count=6, budget=12 * VALUES_WORK, seed=self.seed + 100 * number, largest=600 * number
        )
        usable = [s for s in found if 0 not in s.values()][-3:] or found[:1]
        return [self._case("values", s, r, salt=10 * number) for r in self._regimes() for s in usable]

    def take_up(self, cases: Sequence[Case]) -> None:
        """Make further cases part of stage `values`, here and in every later suite of the same folder."""
        self._further = (*self._further, *cases)
        if self._folder is not None:
            text = json.dumps([c.model_dump(mode="json") for c in self._further])
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / "further.json").write_text(text)

    def _read_further(self) -> tuple[Case, ...]:
        path = self._folder / "further.json" if self._folder is not None else None
        if path is None or not path.is_file():
            return ()
        try:
            return tuple(Case.model_validate(c) for c in json.loads(path.read_text()))
        except (OSError, ValueError) as exc:
            msg = f"{str(path)!r} is damaged: {exc}"
            raise ConfigError(msg, remedy="delete it: the suite is then proved anew") from exc

    def _read_properties(self) -> tuple[Property, ...]:
        path = self._folder / "properties.json" if self._folder is not None else None
        if path is None or not path.is_file():
            return ()
        try:
            data = json.loads(path.read_text())
        except (OSError, ValueError, RecursionError) as exc:
            msg = f"{str(path)!r} is damaged: {exc}"
            raise ConfigError(msg, remedy="delete it: the properties are then not checked") from exc
        return stored_properties(data, where=str(path))

    def property_bases(self) -> list[Case]:
        """Return the cases whose inputs metamorphic properties change; one for each size of stage `values`."""
        sizes = [c.dims for c in self.cases("values")]
        unique = [s for i, s in enumerate(sizes) if s not in sizes[:i]][:2]
        return [self._case("values", s, "grid").model_copy(update={"change": "base"}) for s in unique]

    def _regimes(self) -> tuple[str, ...]:
        return regimes_of(self.ir, self.specs)

    def _spread(self, stage: StageName, sizes: Sequence[Sizes], regimes: Sequence[str]) -> tuple[Case, ...]:
        return tuple(self._case(stage, s, regimes[i % len(regimes)]) for i, s in enumerate(sizes))

    def _case(self, stage: StageName, sizes: Sizes, regime: str, *, salt: int = 0) -> Case:
        text = f"{stage}|{json.dumps(sizes, sort_keys=True)}|{regime}|{salt}"
        seed = (self.seed * 0x9E3779B1 + zlib.crc32(text.encode())) % (1 << 62)
        name = f"{stage}-{'x'.join(str(sizes[d.name]) for d in self.ir.dims) or 'one'}-{regime}" + (
            f"-{salt}" if salt else ""
        )
        return Case(
            id=name,
            stage=stage,
            dims=sizes,
            scalars=scalars_of(self.ir, name, seed),
            regime=regime,
            seed=seed,
        )

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
        missing = [
            c for c in cases if c.id not in self._answers and c.id not in self.skipped and not self._load(c)
        ]
        if missing:
            found = self._evaluate(missing, deadline_s)
            if isinstance(found, ReferenceFault):
                return found
        return {c.id: self._answers[c.id] for c in cases if c.id in self._answers}

    def ask(
        self, source: str, questions: Sequence[Question], *, deadline_s: float = 60.0
    ) -> list[Truth] | ReferenceFault:
        """Return what a reference says, within the time that is left for judging."""
        found: list[Truth] = []
        for part in self._parts(questions):
            left = deadline_s if self.deadline is None else min(deadline_s, self.deadline - time.monotonic())
            over = ReferenceFault("resources", "the time for judging is over before the suite is proved")
            if left <= 0:
                return over
            truths = self._runner.evaluate(source, self.ir, part, deadline_s=left)
            if isinstance(truths, ReferenceFault):
                if truths.kind == "hung" and left < deadline_s:
                    return over
                return truths if truths.case is None else replace(truths, case=truths.case + len(found))
            found += truths
        return found

    def _parts(self, questions: Sequence[Question]) -> Iterator[list[Question]]:
        """Yield the questions in batches of bounded memory; a single one may exceed it."""
        part: list[Question] = []
        held = 0
        for question in questions:
            size = 8 * elements(self.ir, question.dims)
            if part and held + size > _BATCH_BYTES:
                yield part
                part, held = [], 0
            part.append(question)
            held += size
        if part or not questions:
            yield part

    def _evaluate(self, cases: Sequence[Case], deadline_s: float) -> ReferenceFault | None:
        moving = any(t.dtype in FLOATS for t in self.ir.inputs)
        questions = []
        for case in cases:
            inputs = self.inputs(case)
            questions.append(Question(inputs, case.dims, case.scalars))
            perturbed = [self._perturbed(inputs, case, k) for k in (1, 2)] if moving else []
            questions += [Question(p, case.dims, case.scalars) for p in perturbed]
        truths = self.ask(self.reference, questions, deadline_s=deadline_s)
        truths = truths if moving else _thrice(truths)
        if isinstance(truths, ReferenceFault) and truths.case is not None and truths.case % 3:
            # It refuses inputs that are wider than the tensor (it reads their bits, say): nothing is perturbed.
            plain = self.ask(self.reference, questions[::3], deadline_s=deadline_s)
            if not isinstance(plain, ReferenceFault):
                truths = _thrice(plain)
        if isinstance(truths, ReferenceFault):
            if truths.case is None:
                return truths
            blamed = cases[truths.case // 3]
            text = f"{truths.message} [at {blamed.dims}, regime {blamed.regime}]"
            return ReferenceFault(truths.kind, text, truths.case // 3)
        for index, case in enumerate(cases):
            truth, moved = truths[3 * index], truths[3 * index + 1 : 3 * index + 3]
            why = self._unusable(truth)
            if why is not None:
                self.skipped[case.id] = why
                continue
            self._keep(case, Answer(truth.arrays, truth.defined, _sensitivity(self.ir, truth, moved)))
        return None

    def _perturbed(self, inputs: Mapping[str, Array], case: Case, number: int) -> dict[str, Array]:
        """Return float inputs moved by one float32 roundoff of random sign; integers stay.

        Sorted inputs are also moved outward, all at once: a sum in order carries its large partial sums' roundings.
        """
        outward = case.regime == "sorted" and number == 2
        rng = np.random.default_rng(np.random.SeedSequence([case.seed, 1000 + number]))
        moved = {}
        for tensor in self.ir.inputs:
            value = np.asarray(inputs[tensor.name])
            if tensor.dtype in FLOATS:
                wide = to_reference(tensor.dtype, value).astype(np.float64)
                signs = np.sign(wide) if outward else rng.choice((-1.0, 1.0), size=wide.shape)
                moved[tensor.name] = wide * (1.0 + _PERTURBATION * signs)
            else:
                moved[tensor.name] = value
        return moved

    def _unusable(self, truth: Truth) -> str | None:
        """Return why a truth cannot judge: where the IR promises finite values, it must have them in the output's dtype."""
        for name in sorted(truth.beyond):
            return f"{name!r} leaves the range of {self.ir.tensor(name).dtype} here"
        if self.ir.numerics.nonfinite == "propagate":
            return None
        for tensor in self.ir.outputs:
            if tensor.dtype not in FLOATS:
                continue
            mask = truth.defined.get(tensor.name)
            with np.errstate(all="ignore"):
                rounded = truth.arrays[tensor.name].astype(np_dtype(tensor.dtype)).astype(np.float64)
            live = rounded if mask is None else rounded[mask]
            if not np.isfinite(live).all():
                return f"{tensor.name!r} leaves the range of {tensor.dtype} here"
        return None

    # ---- the cache ----
    def _path(self, case: Case) -> Path | None:
        if self._folder is None:
            return None
        key = sha256({"case": case, "ir": self.ir, "reference": self.reference, "specs": self.specs, "v": 2})
        return self._folder / "truth" / f"{key[:32]}.bin"

    def _load(self, case: Case) -> bool:
        path = self._path(case)
        if path is None or not path.is_file():
            return False
        try:
            head, _, body = path.read_bytes().partition(b"\n")
            header = json.loads(head)
            blobs, at = [], 0
            for size in header["sizes"]:
                blobs.append(body[at : at + size])
                at += size
            arrays = rebuild(header["arrays"], blobs)
        except (OSError, ValueError, KeyError, TypeError):
            return False
        parts: dict[str, dict[str, Array]] = {"arrays": {}, "defined": {}, "sensitivity": {}}
        for name, array in arrays.items():
            kind, _, output = name.partition(":")
            parts[kind][output] = array
        for tensor in self.ir.outputs:
            if tensor.dtype not in FLOATS:
                parts["arrays"][tensor.name] = parts["arrays"][tensor.name].astype(np_dtype(tensor.dtype))
        self._answers[case.id] = Answer(**parts)
        return True

    def _keep(self, case: Case, answer: Answer) -> None:
        self._answers[case.id] = answer
        path = self._path(case)
        if path is None:
            return
        flat = {
            f"{k}:{n}": a
            for k, d in (
                ("arrays", answer.arrays),
                ("defined", answer.defined),
                ("sensitivity", answer.sensitivity),
            )
            for n, a in d.items()
        }
        heads, blobs = describe_arrays(flat)
        if sum(map(len, blobs)) > _CACHE_BYTES:
            return
        header = json.dumps({"arrays": heads, "sizes": [len(b) for b in blobs]}).encode()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(f".{zlib.crc32(case.id.encode())}.tmp")
            temporary.write_bytes(header + b"\n" + b"".join(blobs))
            temporary.replace(path)
        except OSError:
            return

    # ---- quorum ----
    def quorum_cases(self) -> list[Case]:
        """Return tiny cases over all regimes, the smallest first."""
        tiny = shapes(self.ir, (), count=5, budget=30_000, seed=self.seed + 4, largest=24)
        small = [s for s in tiny if work(self.ir, s) <= 12_000] or tiny[:1]
        regimes = self._regimes() if small != tiny[:1] or work(self.ir, tiny[0]) <= 12_000 else ("normal",)
        cases = [self._case("tiny", s, r, salt=7) for s in small for r in regimes]
        return sorted(cases, key=lambda c: work(self.ir, c.dims))[:40]

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
        for case, a, b in zip(cases, first, second, strict=True):
            found = _differ(self.ir, case, a, b)
            if found is not None:
                said = value_at(self.ir, case, self.inputs(case), found.output, found.index)
                return replace(found, formula=said)
        against = self._formulas(cases, first).against if formulas else None
        if against is None:
            return None
        return Disagreement(
            against.case,
            against.output,
            against.index,
            against.reference,
            None,
            against.message,
            against.formula,
        )

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
        return truths if truths.case is None else replace(truths, case=3 * truths.case)
    return [t for t in truths for _ in range(3)]


def _sensitivity(ir: KernelIR, truth: Truth, moved: Sequence[Truth]) -> dict[str, Array]:
    found = {}
    for tensor in ir.outputs:
        if tensor.dtype in FLOATS:
            base = truth.arrays[tensor.name]
            with np.errstate(all="ignore"):
                found[tensor.name] = (
                    np.max([np.abs(m.arrays[tensor.name] - base) for m in moved], axis=0)
                    if base.size
                    else base
                )
    return found


def _differ(ir: KernelIR, case: Case, a: Truth, b: Truth) -> Disagreement | None:
    for tensor in ir.outputs:
        x, y = a.arrays[tensor.name], b.arrays[tensor.name]
        mask = a.defined.get(tensor.name, np.ones(x.shape, dtype=bool)) & b.defined.get(
            tensor.name, np.ones(x.shape, dtype=bool)
        )
        if tensor.compare is not None and tensor.compare.mode == "set":
            x, y = np.sort(x.reshape(-1)), np.sort(y.reshape(-1))
            mask = np.ones(x.shape, dtype=bool)
        if tensor.dtype in FLOATS:
            with np.errstate(all="ignore"):
                finite = np.isfinite(x) & np.isfinite(y)
                scale = float(np.max(np.abs(x[finite]))) if finite.any() else 0.0
                near = np.abs(x - y) <= 1e-7 * np.abs(x) + 1e-9 * scale + 1e-300
                alike = (np.isnan(x) & np.isnan(y)) | (x == y) | (finite & near)
        else:
            alike = x == y
            if tensor.compare is not None and tensor.compare.mode == "index" and tensor.compare.ties == "any":
                continue
        wrong = ~alike & mask
        if wrong.any():
            index = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.ndim else ()
            one, two = float(x[index]), float(y[index])
            place = f"{tensor.name}[{', '.join(map(str, index))}]"
            message = (
                f"the references disagree at sizes {case.dims}, regime {case.regime}: {place} is {one:.9g} by the vectorised "
                f"one and {two:.9g} by the loop one ({int(wrong.sum())} of {wrong.size} elements differ)"
            )
            return Disagreement(case, tensor.name, index, one, two, message)
    return None
