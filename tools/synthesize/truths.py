"""What a reference says of a case, whether it can judge, and where it is kept for the next candidate."""

import functools
import json
import os
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import FLOATS
from cuda_harness.state.suite import Case
from cuda_harness.tools.execute.dtypes import np_dtype, to_reference
from cuda_harness.tools.synthesize.emulate import allowed, emulation
from cuda_harness.tools.synthesize.reference_child import describe_arrays, rebuild
from cuda_harness.tools.synthesize.reply import Question, Truth
from cuda_harness.tools.verify.tolerance import accumulation_unit, root_mean_square, usual

Array = NDArray[Any]
_PERTURBATION = 2.0**-24
_STEPS = (1.0, 0.5, 0.3, 0.7)
_CACHE_BYTES = 256 << 20
_HELD_BYTES = 4 << 30
PERTURBED = 2
"""Perturbed forms of each case that are asked besides the case itself."""
_NEAR = 1e-3
"""Share of itself by which a value is at most smaller nearby."""
_TIMES = 4.0
"""How many times the error that float32 arithmetic makes nearby an element is lent."""
_MOST_LENT = 2e-3
"""Most that is lent, as a share of an element and of what elements usually are."""


@dataclass(frozen=True)
class Answer:
    """The truth of one case with what one roundoff in the inputs does to it."""

    arrays: dict[str, Array]
    defined: dict[str, Array]
    sensitivity: dict[str, Array]
    slack: dict[str, Array] = field(default_factory=dict)
    """What elements are lent where an outlying output is looked at again; never stored."""


Compare = Callable[
    [KernelIR, Mapping[str, int], Mapping[str, Array], Answer, Mapping[str, Array]], str | None
]
"""Returns why `got` is wrong, `None` when it is right."""


def perturbed(
    ir: KernelIR, inputs: Mapping[str, Array], case: Case, number: int, *, unit: float = _PERTURBATION
) -> dict[str, Array]:
    """Return float inputs moved by one roundoff (of float32, unless another is given) of random sign; integers stay.

    Several inputs are moved by a little more and less than one, in turns: factors that move by as much against each other
    would leave their product where it is, and a sum that one product dominates would look insensitive.
    Sorted inputs are also moved outward, all at once: a sum in order carries its large partial sums' roundings.
    """
    outward = case.regime == "sorted" and number == PERTURBED
    rng = np.random.default_rng(np.random.SeedSequence([case.seed, 1000 + number]))
    moved = {}
    floats = [t.name for t in ir.inputs if t.dtype in FLOATS]
    steps = unit * _steps(len(floats))
    for tensor in ir.inputs:
        value = np.asarray(inputs[tensor.name])
        if tensor.dtype in FLOATS:
            step = steps[(floats.index(tensor.name) + number) % len(floats)]
            wide = to_reference(tensor.dtype, value).astype(np.float64)
            if outward:
                moved[tensor.name] = wide * (1.0 + step * np.sign(wide))
            else:
                either = np.array([1.0 - step, 1.0 + step])
                moved[tensor.name] = wide * either[rng.integers(0, 2, size=wide.shape, dtype=np.uint8)]
        else:
            moved[tensor.name] = value
    return moved


def _steps(count: int) -> Array:
    """Return by how much each of so many inputs is moved: of one in the root mean square, neighbours unlike, no sum of them zero."""
    steps = np.array([_STEPS[k % len(_STEPS)] for k in range(count)])
    return steps / root_mean_square(steps) if count > 1 else np.ones(count)


def coarse_forms(ir: KernelIR, question: Question, case: Case) -> list[Question]:
    """Return the questions, to a narrowing text, whose answers show what arithmetic of fewer bits may do to a case.

    Empty under `strict`. One roundoff of float32 tells nothing of an element that lies beside a jump (the sign of a
    saturated sum, say), which a roundoff of half does move over it.
    """
    names = allowed(ir)
    if not names:
        return []
    unit = max(accumulation_unit(ir, t) for t in ir.outputs if t.dtype in FLOATS)
    moved = [perturbed(ir, question.inputs, case, 10 + k, unit=unit) for k in range(PERTURBED)]
    return [*(emulation(ir, question, n) for n in names), *(replace(question, inputs=m) for m in moved)]


def answer_of(
    ir: KernelIR, truth: Truth, moved: Sequence[Truth], coarse: Sequence[Truth | None] = ()
) -> Answer:
    """Return a truth with its sensitivity: how far a roundoff of float32 moves each float output.

    Args:
        ir: Names the outputs and the policy.
        truth: What the reference says.
        moved: What it says of inputs moved by a roundoff of float32.
        coarse: What it says of `coarse_forms`; counted by how many of the policy's roundoffs they are.
    """
    sensitivity = {}
    for tensor in ir.outputs:
        if tensor.dtype in FLOATS:
            base = truth.arrays[tensor.name]
            share = _PERTURBATION / accumulation_unit(ir, tensor)
            with np.errstate(all="ignore"):
                apart = [np.abs(m.arrays[tensor.name] - base) for m in moved]
                apart += [share * np.abs(c.arrays[tensor.name] - base) for c in coarse if c is not None]
                sensitivity[tensor.name] = functools.reduce(np.maximum, apart)
    return Answer(truth.arrays, truth.defined, sensitivity)


def nearby(ir: KernelIR, inputs: Mapping[str, Array], case: Case, number: int) -> dict[str, Array]:
    """Return inputs whose floats are smaller by up to `_NEAR` of themselves, of the same types; number 0: as they are."""
    found = dict(inputs)
    for tensor in ir.inputs if number else ():
        if tensor.dtype in FLOATS:
            rng = np.random.default_rng(
                np.random.SeedSequence([case.seed, number, zlib.crc32(tensor.name.encode())])
            )
            value = inputs[tensor.name]
            moved = value.astype(np.float64) * (1.0 - _NEAR * rng.random(value.shape))
            found[tensor.name] = moved.astype(value.dtype)
    return found


def lent(
    ir: KernelIR, answer: Answer, exact: Sequence[Truth | None], single: Sequence[Truth | None]
) -> Answer:
    """Return an answer that lends each element four times the error that float32 arithmetic makes nearby.

    No more than `most_lent` does, and nothing to the other elements.
    """
    slack = {}
    for name, most in most_lent(ir, answer).slack.items():
        with np.errstate(all="ignore"):
            apart = [
                np.abs(s.arrays[name].astype(np.float64) - e.arrays[name])
                for e, s in zip(exact, single, strict=True)
                if e is not None and s is not None and s.arrays[name].shape == e.arrays[name].shape
            ]
        if apart:
            slack[name] = np.minimum(_TIMES * np.max(_finite(np.array(apart)), axis=0), most)
    return replace(answer, slack=slack)


def most_lent(ir: KernelIR, answer: Answer) -> Answer:
    """Return an answer that lends all that may be lent: what is wrong by that too need not be asked about."""
    slack = {}
    for tensor in ir.outputs:
        truth = answer.arrays[tensor.name]
        if tensor.dtype in FLOATS and truth.size:
            size = np.abs(_finite(truth))
            bound = _MOST_LENT * (size + usual(size, root_mean_square(size)))
            slack[tensor.name] = np.where(np.isfinite(truth), bound, 0.0)
    return replace(answer, slack=slack)


def _finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, 0.0)


def unusable(ir: KernelIR, truth: Truth) -> str | None:
    """Return why a truth cannot judge: where the IR promises finite values, it must have them in the output's dtype."""
    for name in sorted(truth.beyond):
        return f"{name!r} leaves the range of {ir.tensor(name).dtype} here"
    if ir.numerics.nonfinite == "propagate":
        return None
    for tensor in ir.outputs:
        if tensor.dtype not in FLOATS:
            continue
        mask = truth.defined.get(tensor.name)
        with np.errstate(all="ignore"):
            rounded = truth.arrays[tensor.name].astype(np_dtype(tensor.dtype)).astype(np.float64)
        live = rounded if mask is None else rounded[mask]
        if np.isnan(live).any():
            return f"{tensor.name!r} is NaN here, and the IR says `nonfinite: forbid`"
        if not np.isfinite(live).all():
            return f"{tensor.name!r} leaves the range of {tensor.dtype} here"
    return None


class LargeTruths:
    """Truths too large for the folder, in memory for the suites of one run: the target's is asked for once, not by every role.

    `asking` is held while large truths are computed, so that branches wait for one another's instead of computing their own.
    """

    def __init__(self, limit_bytes: int | None = None) -> None:
        """Hold at most so many bytes (`None`: 4 GiB, or a quarter of a smaller memory); what was kept first goes first."""
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        self._limit, self._held = min(_HELD_BYTES, memory // 4) if limit_bytes is None else limit_bytes, 0
        self._answers: dict[str, tuple[int, Answer]] = {}
        self._lock = threading.Lock()
        self.asking = threading.RLock()

    def get(self, key: str) -> Answer | None:
        """Return the answer of a key, `None` where it is not held."""
        with self._lock:
            found = self._answers.get(key)
            return None if found is None else found[1]

    def keep(self, key: str, answer: Answer) -> None:
        """Hold an answer, unless it alone is beyond the limit."""
        size = sum(
            a.nbytes for part in (answer.arrays, answer.defined, answer.sensitivity) for a in part.values()
        )
        if size > self._limit:
            return
        with self._lock:
            self._held += size - self._answers.pop(key, (0, answer))[0]
            self._answers[key] = (size, answer)
            while self._held > self._limit:
                oldest = next(iter(self._answers))
                self._held -= self._answers.pop(oldest)[0]


class TruthStore:
    """Answers by case: in memory, and in a folder where there is one."""

    def __init__(
        self, ir: KernelIR, folder: Path | None, key: Callable[[Case], str], large: LargeTruths | None = None
    ) -> None:
        """Take the place; nothing is read yet.

        Args:
            ir: Names the outputs and their types.
            folder: Where truths lie; `None`: in memory only.
            key: Identity of a case's question, all that the answer depends on.
            large: Shared by the suites of a run; `None`: large truths are of this suite alone.
        """
        self._ir, self._folder, self._key, self._large = ir, folder, key, large
        self._answers: dict[str, Answer] = {}

    def get(self, case: Case) -> Answer | None:
        """Return the answer, `None` where there is none or what lies in the folder is damaged."""
        if case.id not in self._answers:
            found = self._read(case)
            if found is None and self._large is not None:
                found = self._large.get(self._key(case))
            if found is not None:
                self._answers[case.id] = found
        return self._answers.get(case.id)

    def keep(self, case: Case, answer: Answer) -> None:
        """Store an answer; one that is too large, or a full disk, leaves it in memory only."""
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
        if sum(a.nbytes for a in flat.values()) > _CACHE_BYTES:
            if self._large is not None:
                self._large.keep(self._key(case), answer)
            return
        heads, blobs = describe_arrays(flat)
        header = json.dumps({"arrays": heads, "sizes": [len(b) for b in blobs]}).encode()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(f".{zlib.crc32(case.id.encode())}.tmp")
            temporary.write_bytes(header + b"\n" + b"".join(blobs))
            temporary.replace(path)
        except OSError:
            return

    def _path(self, case: Case) -> Path | None:
        return None if self._folder is None else self._folder / "truth" / f"{self._key(case)[:32]}.bin"

    def _read(self, case: Case) -> Answer | None:
        path = self._path(case)
        if path is None or not path.is_file():
            return None
        try:
            head, _, body = path.read_bytes().partition(b"\n")
            header = json.loads(head)
            blobs, at = [], 0
            for size in header["sizes"]:
                blobs.append(body[at : at + size])
                at += size
            arrays = rebuild(header["arrays"], blobs)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        parts: dict[str, dict[str, Array]] = {"arrays": {}, "defined": {}, "sensitivity": {}}
        for name, array in arrays.items():
            kind, _, output = name.partition(":")
            parts[kind][output] = array
        for tensor in self._ir.outputs:
            if tensor.dtype not in FLOATS:
                parts["arrays"][tensor.name] = parts["arrays"][tensor.name].astype(np_dtype(tensor.dtype))
        return Answer(**parts)
