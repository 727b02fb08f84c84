"""One wrong output at a time is put to the comparison, the others right, until a case rejects it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.ir import KernelIR, Tensor
from cuda_harness.state.names import FLOATS
from cuda_harness.state.suite import Case, Plant
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.synthesize.truths import Answer, Compare
from cuda_harness.tools.verify.tolerance import UNIT_ROUNDOFF, accumulation_unit, root_mean_square

Array = NDArray[Any]
Make = Callable[[Case, Tensor, Array], Array | None]
"""Gives a wrong output of the right one; `None` where it has no meaning."""
EQUALS_TRUTH = "equals the truth in every case"
"""Why a plant is skipped that is no wrong output here."""
WITHIN_ROUNDING = "differs from the truth by no more than rounding in every case"
NO_MEANING = "has no meaning for this output"
_ROUNDINGS, _COARSE_ROUNDINGS, _LENT = 8.0, 64.0, 512.0
"""Roundings of its own, and of the inputs, up to which an output counts as right: well below the tolerance.

Under a policy of fewer bits sums may be kept in them too, so that one term of many is no more than rounding.
"""
_State = Literal["no meaning", "same", "rounding", "passed", "rejected"]
_ORDER: tuple[_State, ...] = ("no meaning", "same", "rounding", "passed", "rejected")


def given(made: Mapping[tuple[str, str], Array]) -> Make:
    """Return outputs that were made before, by case and output."""
    return lambda case, tensor, _right: made.get((case.id, tensor.name))


@dataclass
class Trial:
    """The cases on which a suite is tried, and what became of each plant."""

    ir: KernelIR
    cases: Sequence[Case]
    answers: Mapping[str, Answer]
    inputs: Mapping[str, Mapping[str, Array]]
    compare: Compare
    _states: dict[str, tuple[_State, str]] = field(default_factory=dict)
    _otherwise: dict[str, str] = field(default_factory=dict)
    _right: dict[str, dict[str, Array]] = field(default_factory=dict)

    def right(self, case: Case) -> dict[str, Array]:
        """Return the truths of a case rounded to the outputs' types."""
        if case.id not in self._right:
            self._right[case.id] = rounded(self.ir, self.answers[case.id].arrays)
        return self._right[case.id]

    def label(self, name: str, tensor: Tensor) -> str:
        """Return what a plant is called in one output."""
        return name if len(self.ir.outputs) == 1 else f"{name} ({tensor.name})"

    def plant(
        self,
        name: str,
        make: Make,
        cases: Sequence[Case] | None = None,
        *,
        otherwise: str = NO_MEANING,
        subtle: bool = False,
    ) -> None:
        """Put a wrong output to the comparison, in each output of the IR.

        What earlier cases said stands: a plant that was rejected once is rejected.

        Args:
            name: What it is called.
            make: Makes it of the right output.
            cases: Where it is planted; `None`: in all.
            otherwise: Why it is skipped where `make` gives nothing in any case.
            subtle: One term of many is wrong: under a policy of fewer bits that may be no more than rounding.
        """
        self._otherwise[name] = otherwise
        for tensor in self.ir.outputs:
            label = self.label(name, tensor)
            state, where = self._states.get(label, ("no meaning", ""))
            for case in self.cases if cases is None else cases:
                if state == "rejected":
                    break
                found = self._one(tensor, case, make, subtle=subtle)
                if _ORDER.index(found) > _ORDER.index(state):
                    state, where = found, case.id
            self._states[label] = (state, where)

    def _one(self, tensor: Tensor, case: Case, make: Make, *, subtle: bool) -> _State:
        answer, right = self.answers[case.id], self.right(case)
        truth, wide = right[tensor.name], answer.arrays[tensor.name]
        with np.errstate(all="ignore"):
            made = make(case, tensor, wide)
            if made is None or made.shape != truth.shape:
                return "no meaning"
            planted = made.astype(np_dtype(tensor.dtype))
            same = self._alike(tensor, planted, truth, answer).all()
        if same:
            return "same"
        outputs = {**right, tensor.name: planted}
        wrong = self.compare(self.ir, case.dims, outputs, answer, self.inputs[case.id])
        if wrong is not None:
            return "rejected"
        with np.errstate(all="ignore"):
            return "passed" if self._apart(tensor, planted, truth, answer, subtle=subtle) else "rounding"

    def _alike(self, tensor: Tensor, planted: Array, truth: Array, answer: Answer) -> Array:
        """Return where a plant is the truth, of the elements that are compared."""
        a, b = self._compared(tensor, planted, answer), self._compared(tensor, truth, answer)
        return np.asarray((a == b) | ((a != a) & (b != b)))  # noqa: PLR0124 - NaN alone differs from itself

    def _compared(self, tensor: Tensor, value: Array, answer: Answer) -> Array:
        mask = answer.defined.get(tensor.name)
        value = value if mask is None else value[mask]
        if tensor.compare is None or tensor.compare.mode != "set":
            return value
        return np.sort(value.reshape(-1).astype(np.float64) if tensor.dtype in FLOATS else value.reshape(-1))

    def _apart(self, tensor: Tensor, planted: Array, truth: Array, answer: Answer, *, subtle: bool) -> bool:
        """Return whether a plant that was accepted is wrong all the same, by more than rounding."""
        if tensor.dtype not in FLOATS:
            return True
        a, b = (self._compared(tensor, v, answer).astype(np.float64) for v in (planted, truth))
        room = self._compared(tensor, self._room(tensor, answer, subtle=subtle), answer)
        if tensor.compare is not None and tensor.compare.mode == "set":
            room = np.full(a.shape, np.max(room, initial=0.0))
        alike = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= room)
        return not bool(alike.all())

    def _room(self, tensor: Tensor, answer: Answer, *, subtle: bool) -> Array:
        """Return how far a few roundings of the declared arithmetic may move each element."""
        truth = answer.arrays[tensor.name]
        unit = max(UNIT_ROUNDOFF[tensor.dtype], accumulation_unit(self.ir, tensor))
        size = np.where(np.isfinite(truth), np.abs(truth), 0.0)
        sense = answer.sensitivity.get(tensor.name, np.zeros(truth.shape))
        moved = np.where(np.isfinite(sense), sense, 0.0) * (unit / UNIT_ROUNDOFF["float32"])
        largest = float(np.max(size)) if size.size else 0.0
        if self.ir.numerics.precision == "strict":
            return np.asarray(_ROUNDINGS * (unit * size + moved) + 1e-12 * largest)
        near = size + root_mean_square(size)
        room = _COARSE_ROUNDINGS * (unit * near + moved)
        if subtle and moved.size:  # what the condition of other elements lends, as in the comparison
            room = room + np.minimum(_COARSE_ROUNDINGS * np.max(moved), _LENT * unit * near)
        return np.asarray(room)

    def undecided(self, names: Sequence[str]) -> list[str]:
        """Return those of `names` that some output has not rejected."""
        return [n for n in names if self._of(n) != {"rejected"}]

    def passed(self, names: Sequence[str]) -> list[str]:
        """Return those of `names` that were really wrong and that no case has rejected."""
        return [n for n in names if "passed" in self._of(n)]

    def _of(self, name: str) -> set[_State]:
        unknown: tuple[_State, str] = ("no meaning", "")
        return {self._states.get(self.label(name, t), unknown)[0] for t in self.ir.outputs}

    def rejecting(self, outputs: Mapping[str, Mapping[str, Array]]) -> list[Case]:
        """Return the cases in which honest outputs, rounded to their types, are not accepted."""
        return [c for c in self.cases if c.id in outputs and self._rejects(c, outputs[c.id])]

    def _rejects(self, case: Case, outputs: Mapping[str, Array]) -> bool:
        own, inputs = rounded(self.ir, outputs), self.inputs[case.id]
        return self.compare(self.ir, case.dims, own, self.answers[case.id], inputs) is not None

    def plants(self) -> tuple[Plant, ...]:
        """Return the plants that were really wrong; `detail` says which case told."""
        return tuple(
            Plant(name=label, rejected=state == "rejected", detail=f"at {where}")
            for label, (state, where) in self._states.items()
            if state in {"passed", "rejected"}
        )

    def unseen(self) -> list[str]:
        """Return the outputs in which no plant was wrong: nothing of them is compared, or all that may be is one value."""
        wrong = {p.name for p in self.plants()}
        return [
            t.name for t in self.ir.outputs if not any(self.label(n, t) in wrong for n in self._otherwise)
        ]

    def skipped(self) -> dict[str, str]:
        """Return why each of the others is no wrong output here."""
        whys = {"same": EQUALS_TRUTH, "rounding": WITHIN_ROUNDING}
        found = {}
        for name, otherwise in self._otherwise.items():
            for tensor in self.ir.outputs:
                label = self.label(name, tensor)
                state = self._states[label][0]
                if state not in {"passed", "rejected"}:
                    found[label] = whys.get(state, otherwise)
        return found


def rounded(ir: KernelIR, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return outputs in their declared types."""
    with np.errstate(all="ignore"):
        return {t.name: arrays[t.name].astype(np_dtype(t.dtype)) for t in ir.outputs}
