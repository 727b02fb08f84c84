"""Wrong outputs that only the reference can make: it is asked about inputs read the wrong way.

A kernel that sums along another axis, starts a window one element late or leaves out a tap computes the right thing
of other inputs; so the reference says what such a kernel writes. A misreading that the reference refuses is no plant.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.expr import ExprError
from cuda_harness.state.ir import KernelIR, Tensor
from cuda_harness.state.names import FLOATS
from cuda_harness.state.suite import Case, Inputs
from cuda_harness.tools.synthesize.emulate import emulation, forbidden
from cuda_harness.tools.synthesize.reply import Question, Truth

Array = NDArray[Any]
Back = Callable[[Truth], dict[str, Array]]
_PAIRS = 3
_AXES = 8
"""Most pairs of dims, and most axes of inputs, that are misread."""


@dataclass(frozen=True)
class Misreading:
    """One way to read inputs wrongly, in one case."""

    name: str
    ask: Callable[[], Question | None]
    """Makes the question when it is wanted; `None` where this case has none."""
    back: Back
    """Gives the outputs that such a kernel writes, in the shapes of the case."""
    domestic: bool = False
    """Whether the inputs stay in their domain, so that a reference has no reason to fail."""


def misreadings(ir: KernelIR, specs: Inputs, case: Case, inputs: Mapping[str, Array]) -> Iterator[Misreading]:
    """Yield every misreading of a case; fewer bits than `strict` grants are one: of operands read without the others."""
    yield from _scalars(ir, case, inputs)
    yield from _axes(ir, case, inputs)
    yield from _windows(ir, specs, case, inputs)
    shown = {t.name for t in ir.outputs if t.dtype in {"float32", "float64"}}
    plain = Question(inputs, case.dims, case.scalars)
    for name in forbidden(ir):
        yield Misreading(
            name,
            partial(emulation, ir, plain, name),
            lambda truth: {n: a for n, a in truth.arrays.items() if n in shown},
            domestic=True,
        )


def _as_they_are(truth: Truth) -> dict[str, Array]:
    return truth.arrays


# ------------------------------------------------------------------------------------------ scalars


def _scalars(ir: KernelIR, case: Case, inputs: Mapping[str, Array]) -> Iterator[Misreading]:
    """Yield free scalars taken for one, for zero and for their value in the IR, and all of them taken for one."""
    free = [s for s in ir.scalars if not s.fixed]
    ones = {s.name: True if s.dtype == "bool" else 1.0 if s.dtype in FLOATS else 1 for s in free}
    zeros = {s.name: False if s.dtype == "bool" else 0.0 if s.dtype in FLOATS else 0 for s in free}
    wrong = {f"{s.name} ignored": {s.name: ones[s.name]} for s in free}
    wrong |= {f"{s.name} taken for zero": {s.name: zeros[s.name]} for s in free}
    wrong |= {f"{s.name} hard-coded": {s.name: s.value} for s in free}
    if len(free) > 1:
        wrong["identity scalars"] = ones
    for name, values in wrong.items():
        if any(case.scalars[n] != v for n, v in values.items()):
            question = partial(Question, inputs, case.dims, {**case.scalars, **values})
            yield Misreading(name, question, _as_they_are, domestic=True)


# --------------------------------------------------------------------------------------------- axes


def _axes(ir: KernelIR, case: Case, inputs: Mapping[str, Array]) -> Iterator[Misreading]:
    """Yield what comes of working along another axis: two dims exchanged, or one matrix read by columns."""
    for one, two in _pairs(ir):
        back = _returned(ir, case.dims, one, two)
        yield Misreading(f"wrong axis ({one}, {two})", partial(_exchanged, ir, case, inputs, one, two), back)
    for tensor in ir.inputs:
        value = np.asarray(inputs[tensor.name])
        if tensor.unused or value.ndim < 2 or min(value.shape[-2:]) < 2:
            continue
        yield _of_one(f"wrong axis of {tensor.name}", case, inputs, tensor, _by_columns)


def _by_columns(value: Array) -> Array:
    """Return a matrix whose elements are taken column by column from where they lie row by row."""
    rows, columns = value.shape[-2:]
    return np.swapaxes(value.reshape(*value.shape[:-2], columns, rows), -1, -2)


def _pairs(ir: KernelIR) -> list[tuple[str, str]]:
    """Return pairs of dims that are axes of one input, in the IR's order; those of the last axes first."""
    found: list[tuple[str, str]] = []
    order = [d.name for d in ir.dims]
    for tensor in ir.inputs:
        names = [e.text for e in reversed(tensor.shape) if e.text in order]
        for one, two in combinations(dict.fromkeys(names), 2):
            pair = (one, two) if order.index(one) < order.index(two) else (two, one)
            if not tensor.unused and pair not in found:
                found.append(pair)
    return found[:_PAIRS]


def _exchanged(ir: KernelIR, case: Case, inputs: Mapping[str, Array], one: str, two: str) -> Question | None:
    """Return the problem with two dims exchanged: inputs are transposed where both are axes, else wrapped around."""
    dims = {**case.dims, one: case.dims[two], two: case.dims[one]}
    found = {}
    for tensor in ir.inputs:
        try:
            shape = tensor.dims(dims)
        except ExprError:
            return None
        fitted = _fitted(_turned(tensor, np.asarray(inputs[tensor.name]), one, two), shape)
        if fitted is None:
            return None
        found[tensor.name] = fitted
    return Question(found, dims, case.scalars)


def _returned(ir: KernelIR, dims: Mapping[str, int], one: str, two: str) -> Back:
    def back(truth: Truth) -> dict[str, Array]:
        found = {}
        for tensor in ir.outputs:
            fitted = _fitted(_turned(tensor, truth.arrays[tensor.name], one, two), tensor.dims(dims))
            if fitted is not None:
                found[tensor.name] = fitted
        return found

    return back


def _turned(tensor: Tensor, value: Array, one: str, two: str) -> Array:
    names = [e.text for e in tensor.shape]
    if one in names and two in names:
        return np.swapaxes(value, names.index(one), names.index(two))
    return value


def _fitted(value: Array, shape: tuple[int, ...]) -> Array | None:
    """Return the array cut or continued from its start along each axis, `None` where it is empty."""
    if 0 in value.shape or 0 in shape or min(shape, default=1) < 0:
        return None
    for axis, size in enumerate(shape):
        if value.shape[axis] != size:
            value = np.take(value, np.arange(size) % value.shape[axis], axis=axis)
    return np.ascontiguousarray(value)


# ------------------------------------------------------------------------------------------ windows


def _windows(ir: KernelIR, specs: Inputs, case: Case, inputs: Mapping[str, Array]) -> Iterator[Misreading]:
    """Yield inputs read one element late along an axis, and without the last element of an axis."""
    places = [(t, a) for t in ir.inputs if not t.unused for a in reversed(range(len(t.shape)))]
    for tensor, axis in places[:_AXES]:
        value = np.asarray(inputs[tensor.name])
        size = value.shape[axis]
        if size < 2:
            continue
        where = tensor.name if value.ndim < 2 else f"{tensor.name}, axis {axis}"
        yield _of_one(f"off-by-one window ({where})", case, inputs, tensor, partial(_late, axis))
        without = partial(_without_last, tensor, specs, axis)
        yield _of_one(f"one tap missing ({where})", case, inputs, tensor, without)


def _late(axis: int, value: Array) -> Array:
    """Return the array read one element late along an axis; its last element stands twice."""
    size = value.shape[axis]
    return np.asarray(np.take(value, np.minimum(np.arange(size) + 1, size - 1), axis=axis))


def _without_last(tensor: Tensor, specs: Inputs, axis: int, value: Array) -> Array:
    """Return the array with nothing at the end of an axis; where zero may leave the domain, its neighbour again."""
    cut = np.moveaxis(value.copy(), axis, 0)
    cut[-1] = cut[-2] if tensor.name in specs.specs else np.zeros((), dtype=value.dtype)
    return np.ascontiguousarray(np.moveaxis(cut, 0, axis))


def _of_one(
    name: str, case: Case, inputs: Mapping[str, Array], tensor: Tensor, change: Callable[[Array], Array]
) -> Misreading:
    """Return the misreading of one input."""

    def ask() -> Question:
        changed = np.ascontiguousarray(change(np.asarray(inputs[tensor.name])))
        return Question({**inputs, tensor.name: changed}, case.dims, case.scalars)

    return Misreading(name, ask, _as_they_are)


def probes(
    specs: Inputs, tensor: Tensor, case: Case, inputs: Mapping[str, Array], most: int
) -> Iterator[Question]:
    """Yield the case without one element of an input each, at most `most` of them, spread evenly."""
    value = np.asarray(inputs[tensor.name])
    step = -(-value.size // most) or 1
    for place in range(0, value.size, step):
        other = value.copy()
        flat = other.reshape(-1)
        flat[place] = flat[place - 1] if tensor.name in specs.specs else 0
        yield Question({**inputs, tensor.name: other}, case.dims, case.scalars)


def without_last_taps(output: Array, probed: Sequence[Array]) -> Array | None:
    """Return an output each of whose elements misses the last input element that it depends on.

    Args:
        output: The truth.
        probed: The output without one input element each, in the order of these; same shape.

    Returns:
        `None` where no element depends on two of them: there is no window.
    """
    if not probed:
        return None
    stack = np.stack(probed)
    with np.errstate(invalid="ignore"):
        moved = ~((stack == output) | ((stack != stack) & (output != output)))  # noqa: PLR0124 - NaN alone differs
    if not (moved.sum(axis=0) > 1).any():
        return None
    last = len(probed) - 1 - np.argmax(moved[::-1], axis=0)
    picked = np.take_along_axis(stack, last[None, ...], axis=0)[0]
    return np.where(moved.any(axis=0), picked, output)
