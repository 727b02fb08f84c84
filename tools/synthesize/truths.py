"""What a reference says of a case, whether it can judge, and where it is kept for the next candidate."""

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import FLOATS
from cuda_harness.state.suite import Case
from cuda_harness.tools.execute.dtypes import np_dtype, to_reference
from cuda_harness.tools.synthesize.reference import Truth
from cuda_harness.tools.synthesize.reference_child import describe_arrays, rebuild

Array = NDArray[Any]
_PERTURBATION = 2.0**-24
_CACHE_BYTES = 256 << 20
PERTURBED = 2
"""Perturbed forms of each case that are asked besides the case itself."""


@dataclass(frozen=True)
class Answer:
    """The truth of one case with what one roundoff in the inputs does to it."""

    arrays: dict[str, Array]
    defined: dict[str, Array]
    sensitivity: dict[str, Array]


Compare = Callable[
    [KernelIR, Mapping[str, int], Mapping[str, Array], Answer, Mapping[str, Array]], str | None
]
"""Returns why `got` is wrong, `None` when it is right."""


def perturbed(ir: KernelIR, inputs: Mapping[str, Array], case: Case, number: int) -> dict[str, Array]:
    """Return float inputs moved by one float32 roundoff of random sign; integers stay.

    Sorted inputs are also moved outward, all at once: a sum in order carries its large partial sums' roundings.
    """
    outward = case.regime == "sorted" and number == PERTURBED
    rng = np.random.default_rng(np.random.SeedSequence([case.seed, 1000 + number]))
    moved = {}
    for tensor in ir.inputs:
        value = np.asarray(inputs[tensor.name])
        if tensor.dtype in FLOATS:
            wide = to_reference(tensor.dtype, value).astype(np.float64)
            signs = np.sign(wide) if outward else rng.choice((-1.0, 1.0), size=wide.shape)
            moved[tensor.name] = wide * (1.0 + _PERTURBATION * signs)
        else:
            moved[tensor.name] = value
    return moved


def answer_of(ir: KernelIR, truth: Truth, moved: Sequence[Truth]) -> Answer:
    """Return a truth with its sensitivity: how far the perturbed inputs move each float output."""
    sensitivity = {}
    for tensor in ir.outputs:
        if tensor.dtype in FLOATS:
            base = truth.arrays[tensor.name]
            with np.errstate(all="ignore"):
                apart = [np.abs(m.arrays[tensor.name] - base) for m in moved]
                sensitivity[tensor.name] = np.max(apart, axis=0) if base.size else base
    return Answer(truth.arrays, truth.defined, sensitivity)


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
        if not np.isfinite(live).all():
            return f"{tensor.name!r} leaves the range of {tensor.dtype} here"
    return None


class TruthStore:
    """Answers by case: in memory, and in a folder where there is one."""

    def __init__(self, ir: KernelIR, folder: Path | None, key: Callable[[Case], str]) -> None:
        """Take the place; nothing is read yet.

        Args:
            ir: Names the outputs and their types.
            folder: Where truths lie; `None`: in memory only.
            key: Identity of a case's question, all that the answer depends on.
        """
        self._ir, self._folder, self._key = ir, folder, key
        self._answers: dict[str, Answer] = {}

    def get(self, case: Case) -> Answer | None:
        """Return the answer, `None` where there is none or what lies in the folder is damaged."""
        if case.id not in self._answers:
            found = self._read(case)
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
