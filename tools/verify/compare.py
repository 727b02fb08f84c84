"""Every declared output against the truth, by its own rule; only positively proven closeness passes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.ir import Compare, KernelIR, Tensor
from cuda_harness.state.names import FLOATS
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.verify import screen
from cuda_harness.tools.verify.tolerance import (
    SMALLEST,
    UNIT_ROUNDOFF,
    Tolerance,
    exponent_argument,
    least,
    root_mean_square,
    tolerance,
    with_slack,
)

Array = NDArray[Any]


@dataclass(frozen=True)
class Expected:
    """The truth of one case."""

    arrays: dict[str, Array]
    """By output, shaped: float64 for floats, the exact dtype otherwise."""
    defined: dict[str, Array] = field(default_factory=dict)
    """Masks of the elements that the request defines; absent: all."""
    sensitivity: dict[str, Array] = field(default_factory=dict)
    """By float output: how far one float32 roundoff (2**-24) in the inputs moves each element."""
    slack: dict[str, Array] = field(default_factory=dict)
    """By float output: what each element is lent beside its derived tolerance; a stated one stays as it is."""


@dataclass(frozen=True)
class Mismatch:
    """The smallest failing element of one output, and the class of mistake it looks like."""

    output: str
    class_: Literal["mismatch", "nonfinite", "precision"]
    message: str
    evidence: dict[str, Any]
    count: int
    total: int


@dataclass(frozen=True)
class Agreement:
    """All outputs are within their bounds; `worst` is the largest error over its bound, the least bound of a large output."""

    worst: float


def compare_outputs(
    ir: KernelIR,
    dims: Mapping[str, int],
    got: Mapping[str, Array],
    expected: Expected,
    *,
    inputs: Mapping[str, Array],
) -> Agreement | Mismatch:
    """Return whether `got` is right; a missing output is a mismatch, an extra one is ignored by construction."""
    worst = 0.0
    for tensor in ir.outputs:
        shape = tensor.dims(dims)
        if tensor.name not in got or got[tensor.name].size != int(np.prod(shape, dtype=np.int64)):
            return Mismatch(
                tensor.name, "mismatch", f"output {tensor.name!r} is missing", {"output": tensor.name}, 0, 0
            )
        actual = got[tensor.name].reshape(shape)
        truth = expected.arrays[tensor.name]
        mask = expected.defined.get(tensor.name)
        with np.errstate(all="ignore"):  # infinities and signalling NaNs are data here
            found = _one(ir, tensor, dims, actual, truth, mask, expected, inputs)
        if isinstance(found, Mismatch):
            return found
        worst = max(worst, found)
    return Agreement(worst)


def _one(
    ir: KernelIR, tensor: Tensor, dims: Mapping[str, int], actual: Array, truth: Array, mask: Array | None,
    expected: Expected, inputs: Mapping[str, Array],
) -> float | Mismatch:  # fmt: skip
    rule = tensor.compare or Compare(mode="close" if tensor.dtype in FLOATS else "exact")
    if actual.dtype != np_dtype(tensor.dtype):
        text = f"output {tensor.name!r} has element type {actual.dtype}, not {tensor.dtype}"
        return Mismatch(tensor.name, "mismatch", text, {"output": tensor.name}, 0, 0)
    match rule.mode:
        case "index":
            return _index(tensor, rule, actual, truth, mask, inputs, expected)
        case "set":
            return _set(ir, tensor, dims, actual, truth, mask, expected)
        case "packed_u8":
            return _packed(tensor, rule, actual, truth, mask)
        case "close" if tensor.dtype in FLOATS:
            if mask is None and actual.size >= screen.PIECE:
                relative, absolute = least(ir, tensor, dims)
                share = screen.within(actual, truth, tensor.dtype, relative=relative, absolute=absolute)
                if share is not None:
                    return share
            argument = exponent_argument(ir, inputs)
            allowed = tolerance(ir, tensor, dims, truth, expected.sensitivity.get(tensor.name), argument)
            derived = rule.rtol is None and rule.atol is None
            slack = expected.slack.get(tensor.name) if derived else None
            if slack is not None:
                allowed = with_slack(allowed, truth, slack)
            return _close(ir, tensor, actual, truth, mask, allowed)
        case "close" if tensor.dtype != "bool" and (rule.atol or rule.rtol):
            return _near_integers(tensor, rule, actual, truth, mask)
        case _:
            return _exact(tensor, actual, truth, mask)


def _exact(tensor: Tensor, actual: Array, truth: Array, mask: Array | None) -> float | Mismatch:
    if tensor.dtype in FLOATS:
        rounded = truth.astype(np_dtype(tensor.dtype)).astype(np.float64)
        value = actual.astype(np.float64)
        wrong = ~((value == rounded) | (np.isnan(value) & np.isnan(rounded)))
    else:
        wrong = actual != truth
    return _verdict(tensor, actual, truth, wrong, mask) or 0.0


def _near_integers(
    tensor: Tensor, rule: Compare, actual: Array, truth: Array, mask: Array | None
) -> float | Mismatch:
    """Compare integers within a stated tolerance; the difference is taken in Python's range, so it cannot wrap."""
    high, low = np.maximum(actual, truth), np.minimum(actual, truth)
    unsigned = np.dtype(f"u{high.dtype.itemsize}") if high.dtype.kind == "i" else high.dtype
    apart = (high.view(unsigned) - low.view(unsigned)).astype(np.float64)
    allowed = (rule.atol or 0.0) + (rule.rtol or 0.0) * np.abs(truth.astype(np.float64))
    return _verdict(tensor, actual, truth, ~(apart <= allowed), mask) or 0.0


def _close(
    ir: KernelIR, tensor: Tensor, actual: Array, truth: Array, mask: Array | None, allowed: Tolerance
) -> float | Mismatch:
    value = actual.astype(np.float64)
    rounded = truth.astype(np_dtype(tensor.dtype)).astype(np.float64)
    finite = np.isfinite(rounded)
    same_kind = np.where(np.isnan(rounded), np.isnan(value), value == rounded)
    stray = np.where(finite, ~np.isfinite(value), ~same_kind)
    if mask is not None:
        stray &= mask
    if stray.any():
        return _failed(tensor, actual, truth, stray, "nonfinite")
    error = np.abs(np.where(finite, value, 0.0) - np.where(finite, truth, 0.0))
    wrong = ~(error <= allowed.element) & finite
    found = _verdict(tensor, actual, truth, wrong, mask)
    if found is not None:
        return _precision(ir, tensor, found, error, truth, finite, mask) or found
    live = finite if mask is None else finite & mask
    size, off = root_mean_square(truth[live]), root_mean_square(error[live])
    if size > 0 and off > allowed.norm * size + SMALLEST[tensor.dtype]:
        worst = np.zeros(error.shape, dtype=bool)
        worst.reshape(-1)[int(np.argmax(np.where(live, error, -1.0)))] = True
        return _failed(
            tensor, actual, truth, worst, "precision" if off < 0.01 * size else "mismatch", norm=off / size
        )
    if not live.any():
        return 0.0
    return float(np.max(error[live] / np.maximum(allowed.element[live], 1e-300)))


def _precision(
    ir: KernelIR,
    tensor: Tensor,
    found: Mismatch,
    error: Array,
    truth: Array,
    finite: Array,
    mask: Array | None,
) -> Mismatch | None:
    """Return the mismatch as `precision` when its errors are as small and as even as low-precision arithmetic makes them."""
    if ir.numerics.precision != "strict" or tensor.dtype not in {"float32", "float64"}:
        return None
    live = finite if mask is None else finite & mask
    size = root_mean_square(truth[live])
    if size == 0:
        return None
    beside = error[live] > 0
    own = error[live][beside] / np.maximum(np.abs(truth[live][beside]), 1e-300)
    if (
        not own.size or float(np.median(own)) > 2e-2
    ):  # rounding to fewer bits keeps most elements' leading digits
        return None
    relative = error[live] / size
    even = root_mean_square(relative)
    if even < 2e-3 and float(relative.max()) < 2e-2 and found.count > max(found.total // 4, 16):
        text = (
            found.message
            + "; the error is small and everywhere, as of half, TF32 or fast-math arithmetic, which `strict` forbids"
        )
        return Mismatch(
            found.output,
            "precision",
            text,
            {**found.evidence, "relative_rms_error": even},
            found.count,
            found.total,
        )
    return None


def _packed(
    tensor: Tensor, rule: Compare, actual: Array, truth: Array, mask: Array | None
) -> float | Mismatch:
    width = np_dtype(tensor.dtype).itemsize
    a = np.ascontiguousarray(actual).reshape(-1).view(np.uint8).reshape(-1, width).astype(np.int16)
    b = np.ascontiguousarray(truth).reshape(-1).view(np.uint8).reshape(-1, width).astype(np.int16)
    wrong = (np.abs(a - b) > rule.max_step).any(axis=1).reshape(actual.shape)
    return _verdict(tensor, actual, truth, wrong, mask) or 0.0


def _set(
    ir: KernelIR,
    tensor: Tensor,
    dims: Mapping[str, int],
    actual: Array,
    truth: Array,
    mask: Array | None,
    expected: Expected,
) -> float | Mismatch:
    flat, other = actual.reshape(-1), truth.reshape(-1)
    if mask is not None:
        flat, other = flat[mask.reshape(-1)], other[mask.reshape(-1)]
    a, b = np.sort(flat.astype(other.dtype)), np.sort(other)
    if tensor.dtype in FLOATS:
        plain = tensor.model_copy(update={"compare": None})
        sense = expected.sensitivity.get(tensor.name)
        lent = np.full(b.shape, float(np.max(sense)) if sense is not None and sense.size else 0.0)
        return _close(ir, plain, a, b, None, tolerance(ir, plain, dims, b, lent))
    return _verdict(tensor, a, b, a != b, None) or 0.0


def _index(
    tensor: Tensor, rule: Compare, actual: Array, truth: Array, mask: Array | None, inputs: Mapping[str, Array],
    expected: Expected,
) -> float | Mismatch:  # fmt: skip
    """Compare indices by the values they name; `lowest` asks for the very index."""
    wrong = actual.astype(np.int64) != truth.astype(np.int64)
    if rule.ties == "any" and wrong.any() and rule.of is not None:
        values = inputs.get(rule.of)
        if values is None:
            values = expected.arrays.get(rule.of)
        if values is not None:
            wrong &= ~same_value(values, rule.axis, actual.astype(np.int64), truth.astype(np.int64))
            if actual.ndim and actual.ndim == values.ndim:
                wrong |= _repeats(actual, -1 if rule.axis is None else rule.axis)
    return _verdict(tensor, actual, truth, wrong, mask) or 0.0


def _repeats(actual: Array, axis: int) -> Array:
    """Return where an index occurs again along its own axis: two outputs may not name the same element."""
    lines = np.moveaxis(actual, axis, -1)
    order = np.argsort(lines, axis=-1, kind="stable")
    ranked = np.take_along_axis(lines, order, -1)
    again = np.zeros(lines.shape, dtype=bool)
    np.put_along_axis(again, order[..., 1:], ranked[..., 1:] == ranked[..., :-1], -1)
    return np.moveaxis(again, -1, axis)


def same_value(values: Array, axis: int | None, got: Array, want: Array) -> Array:
    """Return where the indices name equal values; out-of-range ones name none."""
    if got.size == 1 or (axis is None and got.ndim != values.ndim - 1 and got.ndim != values.ndim):
        flat = values.reshape(-1)
        if not flat.size:
            return np.zeros(got.shape, dtype=bool)
        inside = (got >= 0) & (got < flat.size) & (want >= 0) & (want < flat.size)
        one, two = (flat[np.clip(i, 0, flat.size - 1)] for i in (got, want))
        return np.asarray(inside & (one == two))
    at = -1 if axis is None else axis
    many = got.ndim == values.ndim
    lines = np.moveaxis(values, at, -1)
    g, w = (np.moveaxis(x, at, -1) if many else x[..., None] for x in (got, want))
    length = lines.shape[-1]
    if not length or lines.shape[:-1] != g.shape[:-1]:
        return np.zeros(got.shape, dtype=bool)
    inside = (g >= 0) & (g < length) & (w >= 0) & (w < length)
    one = np.take_along_axis(lines, np.clip(g, 0, length - 1), -1)
    two = np.take_along_axis(lines, np.clip(w, 0, length - 1), -1)
    equal = inside & (one == two)
    return np.asarray(np.moveaxis(equal, -1, at) if many else equal[..., 0])


def _verdict(
    tensor: Tensor, actual: Array, truth: Array, wrong: Array, mask: Array | None
) -> Mismatch | None:
    if mask is not None and mask.shape == wrong.shape:
        wrong = wrong & mask
    return _failed(tensor, actual, truth, wrong, "mismatch") if wrong.any() else None


def _failed(
    tensor: Tensor, actual: Array, truth: Array, wrong: Array, class_: Literal["mismatch", "nonfinite", "precision"],
    *, norm: float | None = None,
) -> Mismatch:  # fmt: skip
    flat = np.flatnonzero(wrong.reshape(-1))
    index = tuple(int(i) for i in np.unravel_index(flat[0], wrong.shape)) if wrong.ndim else ()
    got, want = actual.reshape(-1)[flat[0]], truth.reshape(-1)[flat[0]]
    guess = _pattern(tensor, actual, truth, wrong)
    place = f"{tensor.name}[{', '.join(map(str, index))}]" if index else tensor.name
    count, total = int(flat.size), int(wrong.size)
    message = f"{place} is {_number(got)}, expected {_number(want)}; {count} of {total} elements of shape {list(actual.shape)} are wrong"
    if norm is not None:
        message = f"{place} is {_number(got)}, expected {_number(want)}; the error of the whole output is {norm:.1e} of its norm, more than honest rounding"
    if guess:
        message += f"; it looks like {guess}"
    evidence = {
        "output": tensor.name, "index": list(index), "got": _json(got), "expected": _json(want), "shape": list(actual.shape),
        "wrong": count, "of": total, "pattern": guess,
    }  # fmt: skip
    return Mismatch(tensor.name, class_, message, evidence, count, total)


def _number(value: Any) -> str:  # noqa: ANN401 - a NumPy scalar
    number = float(value)
    if not np.isfinite(number):
        return str(number)
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else f"{number:.6g}"


def _json(value: Any) -> float | int | str:  # noqa: ANN401 - a NumPy scalar
    number = float(value)
    if not np.isfinite(number):
        return str(number)
    return int(value) if np.asarray(value).dtype.kind in "iub" else number


def _pattern(tensor: Tensor, actual: Array, truth: Array, wrong: Array) -> str | None:
    """Return a guess of the class of mistake in a few words, `None` when nothing fits."""
    with np.errstate(invalid="ignore"):  # a signalling NaN may stand in the output
        a = actual.astype(np.float64).reshape(-1)
        b = truth.astype(np.float64).reshape(-1)
    bad = wrong.reshape(-1)
    if a.size < 2 or not np.isfinite(b).all():
        return None
    if not a.any():
        return "an output that was only zeroed"
    largest = float(np.max(np.abs(b)))
    if largest > 0:
        a, b = a / largest, b / largest
    close = 1e-3 if tensor.dtype in FLOATS else 0.0
    unit = 64 * UNIT_ROUNDOFF.get(tensor.dtype, 0.0)

    def equal(x: Array, y: Array) -> bool:
        if not x.size or not np.isfinite(x).all():
            return False
        return bool(np.max(np.abs(x - y)) <= max(close, unit) * (np.max(np.abs(y)) or 1.0))

    first, last = int(np.argmax(bad)), int(a.size - np.argmax(bad[::-1]) - 1)
    if bad[first : last + 1].all() and last == a.size - 1 and first > 0:
        return f"the tail: everything from flat index {first} on"
    if (
        actual.ndim == 2
        and actual.shape[0] == actual.shape[1]
        and equal(a.reshape(actual.shape).T.reshape(-1), b)
    ):
        return "a transposed output"
    if equal(-a, b):
        return "the opposite sign"
    if equal(a[1:], b[:-1]) or equal(a[:-1], b[1:]):
        return "a shift by one element"
    denominator = float(np.dot(b, b))
    if denominator > 0 and np.isfinite(a).all():
        factor = float(np.dot(a, b) / denominator)
        if factor not in {0.0, 1.0} and equal(a, factor * b) and abs(factor - 1) > 1e-3:
            return f"a constant factor of {factor:.4g}"
    if actual.ndim >= 2:
        lines = wrong.reshape(-1, actual.shape[-1])
        if bad.sum() <= lines.shape[0] and lines[:, -1].sum() == bad.sum():
            return "the last column only"
        if lines[-1].sum() == bad.sum():
            return "the last row only"
        if lines[:, 0].sum() == bad.sum():
            return "the first column only"
    if bad.sum() == 1 and bad[0]:
        return "the first element only"
    return None
