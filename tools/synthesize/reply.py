"""What came back from a reference's process, in comparable form; nothing in it is taken on trust."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.names import FLOATS
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.synthesize.reference_child import rebuild

Array = NDArray[Any]
FORGED = "the reference wrote to the channel of its own answer"

FaultKind = Literal[
    "raised",
    "hung",
    "killed",
    "memory",
    "bad_shape",
    "bad_dtype",
    "missing_output",
    "forged",
    "resources",
]


@dataclass(frozen=True)
class ReferenceFault:
    """A reference that cannot be used: the oracle's fault, never a kernel's."""

    kind: FaultKind
    message: str
    case: int | None = None


@dataclass(frozen=True)
class Truth:
    """What a reference says of one case: arrays by output, and masks of the elements it defines."""

    arrays: dict[str, Array]
    defined: dict[str, Array]
    beyond: frozenset[str] = frozenset()
    """Integer outputs with values that their type cannot hold."""


@dataclass(frozen=True)
class Question:
    """One evaluation: inputs in the tensors' exact dtypes, sizes, scalars."""

    inputs: Mapping[str, Array]
    dims: Mapping[str, int]
    scalars: Mapping[str, float | int | bool]


def read_reply(
    ir: KernelIR, questions: Sequence[Question], reply: Mapping[str, Any], data: list[bytes]
) -> list[Truth] | ReferenceFault:
    """Return the truths in a reply; it came from a process that ran foreign code, so nothing in it is taken on trust."""
    truths = []
    found = _read(ir, questions, reply, data)
    if isinstance(found, ReferenceFault):
        return found
    for truth in found:
        if isinstance(truth, ReferenceFault):
            return truth
        if truth is None:
            return ReferenceFault("forged", FORGED)
        truths.append(truth)
    return truths


def read_each(
    ir: KernelIR, questions: Sequence[Question], reply: Mapping[str, Any], data: list[bytes]
) -> list[Truth | None] | ReferenceFault:
    """Return the truths in the reply to a tolerant batch; an answer in a wrong form is none."""
    found = _read(ir, questions, reply, data)
    if isinstance(found, ReferenceFault):
        return found
    return [None if isinstance(t, ReferenceFault) else t for t in found]


def _read(
    ir: KernelIR, questions: Sequence[Question], reply: Mapping[str, Any], data: list[bytes]
) -> list[Truth | ReferenceFault | None] | ReferenceFault:
    try:
        if reply["status"] == "fault":
            kind: FaultKind = "memory" if reply["kind"] == "memory" else "raised"
            case = reply.get("case")
            return ReferenceFault(
                kind,
                f"the reference failed: {reply['message']}"[:1_000],
                int(case) if case is not None else None,
            )
        cases = reply["cases"]
        if len(cases) != len(questions) or sum(len(c or ()) for c in cases) != len(data):
            return ReferenceFault("forged", "the reference's answer does not fit the questions")
        truths: list[Truth | ReferenceFault | None] = []
        at = 0
        for number, (question, case) in enumerate(zip(questions, cases, strict=True)):
            blobs = data[at : at + len(case or ())]
            at += len(blobs)
            truths.append(None if case is None else _normalised(ir, question, case, blobs, number))
    except (KeyError, TypeError, ValueError):
        return ReferenceFault("forged", FORGED)
    return truths


def _normalised(
    ir: KernelIR, question: Question, case: list[dict[str, Any]], blobs: list[bytes], number: int
) -> Truth | ReferenceFault:
    try:
        found = rebuild(case, blobs)
    except (ValueError, TypeError) as exc:
        return ReferenceFault("bad_dtype", f"the reference returned no plain arrays: {exc}", number)
    truth = normalise(ir, question.dims, found)
    if not isinstance(truth, str):
        return truth
    kind: FaultKind = "bad_shape"
    if "returns no" in truth:
        kind = "missing_output"
    elif "dtype" in truth:
        kind = "bad_dtype"
    return ReferenceFault(kind, truth, number)


def normalise(ir: KernelIR, dims: Mapping[str, int], found: Mapping[str, Array]) -> Truth | str:
    """Return the outputs in comparable form, or what is wrong with them.

    A size-1 difference (0-d for [1], trailing ones) is forgiven when the element count agrees; any other shape is not.
    Integers beyond the range of an unsigned type wrap, as its arithmetic does; beyond a signed one they have no value
    there, and the output is named in `beyond`.
    """
    arrays, defined, beyond = {}, {}, set()
    for tensor in ir.outputs:
        if tensor.name not in found:
            return f"the reference returns no {tensor.name!r} (it returns: {', '.join(found) or 'nothing'})"
        array, shape = found[tensor.name], tensor.dims(dims)
        squeezed = tuple(n for n in array.shape if n != 1) == tuple(n for n in shape if n != 1)
        if array.shape != shape and not (squeezed and array.size == int(np.prod(shape))):
            return f"the reference's {tensor.name!r} has shape {list(array.shape)}, the IR says {list(shape)}"
        array = array.reshape(shape)
        mask = found.get(f"{tensor.name}.defined")
        if mask is not None:
            if mask.size != array.size:
                return (
                    f"the mask '{tensor.name}.defined' has shape {list(mask.shape)}, its output {list(shape)}"
                )
            defined[tensor.name] = mask.reshape(shape).astype(bool)
            array = np.where(defined[tensor.name], array, np.zeros((), dtype=array.dtype))
        if tensor.dtype in FLOATS:
            arrays[tensor.name] = array.astype(np.float64)
            continue
        if array.dtype.kind == "f" and not (np.isfinite(array).all() and (array == np.rint(array)).all()):
            return f"the reference's {tensor.name!r} has dtype {array.dtype} with fractions, the IR says {tensor.dtype}"
        if not _holds(tensor.dtype, array):
            beyond.add(tensor.name)
        with np.errstate(invalid="ignore"):
            arrays[tensor.name] = array.astype(np_dtype(tensor.dtype))
    return Truth(arrays, defined, frozenset(beyond))


def _holds(dtype: str, array: Array) -> bool:
    """Return whether an integer type has a value for every element: a signed one only inside its range."""
    if dtype == "bool" or not array.size or array.dtype.kind == "b":
        return True
    info = np.iinfo(np_dtype(dtype))
    if info.min == 0 and array.dtype.kind != "f":
        return True
    return bool(info.min <= int(array.min()) and int(array.max()) <= info.max)
