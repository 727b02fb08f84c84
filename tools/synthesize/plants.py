"""Wrong outputs made of the right ones: what careless kernels write, and what cheating ones do."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.ir import KernelIR, Tensor
from cuda_harness.state.names import FLOATS
from cuda_harness.state.suite import Case
from cuda_harness.tools.execute.dtypes import to_reference
from cuda_harness.tools.synthesize.truths import Answer

Array = NDArray[Any]
Maker = Callable[[Array], Array | None]
Planted = dict[tuple[str, str], Array]
"""A wrong output by case and output."""
_TILE = 32


def _rolled(a: Array) -> Array | None:
    return np.roll(a.reshape(-1), 1).reshape(a.shape) if a.size > 1 else None


def _last(a: Array) -> Array | None:
    if not a.size:
        return None
    b = a.copy()
    if a.dtype.kind in "iu":  # the top bit of each byte: beyond any step that a rule allows
        b.reshape(-1)[-1:].view(np.uint8)[...] ^= 0x80
    else:
        b.reshape(-1)[-1] = ~b.reshape(-1)[-1] if a.dtype.kind == "b" else b.reshape(-1)[-1] + 1
    return b


def _last_row(a: Array) -> Array | None:
    if a.ndim < 2 or a.shape[0] < 2:
        return None
    b = a.copy()
    b[-1] = 0
    return b


def _last_column(a: Array) -> Array | None:
    if a.ndim < 2 or a.shape[-1] < 2:
        return None
    b = a.copy()
    b[..., -1] = 0
    return b


def _last_tile(a: Array) -> Array | None:
    """Leave what an earlier launch wrote of the tile before; zeros where that is the same."""
    if a.size < 4:
        return None
    flat, size = a.reshape(-1), min(_TILE, a.size // 2)
    b = flat.copy()
    b[-size:] = flat[-2 * size : -size]
    if np.array_equal(b, flat, equal_nan=a.dtype.kind == "f"):
        b[-size:] = 0
    return b.reshape(a.shape)


def _last_corner(a: Array) -> Array | None:
    """Leave the corner tile of a matrix whose grid is rounded down along both axes."""
    if a.ndim < 2 or min(a.shape[-2:]) < 2:
        return None
    b = a.copy()
    rows, columns = (min(_TILE // 2, n // 2) for n in a.shape[-2:])
    b[..., -rows:, -columns:] = 0
    return b


def _halves(a: Array) -> Array | None:
    n = a.size // 2
    return np.concatenate([a.reshape(-1)[n:], a.reshape(-1)[:n]]).reshape(a.shape) if a.size > 1 else None


def _transposed(a: Array) -> Array | None:
    if a.ndim < 2 or min(a.shape[-2:]) < 2:
        return None
    return np.ascontiguousarray(np.swapaxes(a, -1, -2)).reshape(a.shape)


def _duplicated(a: Array) -> Array | None:
    return np.broadcast_to(a[:1], a.shape).copy() if a.ndim >= 1 and a.shape[0] > 1 else None


def _doubled(a: Array) -> Array | None:
    """Write each even row twice: a row index that was halved and doubled again."""
    return a[np.arange(a.shape[0]) // 2 * 2] if a.ndim >= 1 and a.shape[0] > 2 else None


def _reversed(a: Array) -> Array | None:
    return np.flip(a.reshape(-1)).reshape(a.shape) if a.size > 1 else None


def _columns(a: Array) -> Array | None:
    return np.roll(a, 1, axis=-1) if a.ndim >= 2 and a.shape[-1] > 1 else None


MAKERS: dict[str, Maker] = {
    "zeros": np.zeros_like,
    "ones": np.ones_like,
    "mean": lambda a: np.full_like(a, a.mean()) if a.size and a.dtype.kind == "f" else None,
    "shifted by one": _rolled,
    "last element stale": _last,
    "last row stale": _last_row,
    "last column stale": _last_column,
    "last tile stale": _last_tile,
    "last corner tile stale": _last_corner,
    "shifted along rows": _columns,
    "halves swapped": _halves,
    "transposed": _transposed,
    "duplicated rows": _duplicated,
    "rows in pairs": _doubled,
    "reversed": _reversed,
    "sign": lambda a: -a if a.dtype.kind in "fi" else None,
}
"""How each planted wrong output is made of the right one; `None` where it has no meaning."""


def scaled(ir: KernelIR) -> Maker:
    """Return a plant that is off by one percent, or by more where the declared arithmetic is coarser than that."""
    coarse = ir.numerics.precision != "strict" or any(
        t.dtype not in {"float32", "float64"} for t in ir.outputs if t.dtype in FLOATS
    )
    factor = 1.35 if coarse else 1.01
    return lambda a: a * factor if a.dtype.kind == "f" else None


def copies(
    ir: KernelIR,
    cases: Sequence[Case],
    answers: Mapping[str, Answer],
    inputs: Mapping[str, Mapping[str, Array]],
) -> Iterator[tuple[str, Planted]]:
    """Yield each input that has an output's shape as that output."""
    for source in ir.inputs:
        made = {
            (c.id, t.name): to_reference(source.dtype, np.asarray(inputs[c.id][source.name])).astype(np.float64)
            for c in cases
            for t in ir.outputs
            if inputs[c.id][source.name].shape == answers[c.id].arrays[t.name].shape
        }  # fmt: skip
        if made:
            yield f"copy of {source.name}", made


def is_free(tensor: Tensor) -> bool:
    """Return whether an output names elements and may name any of equal ones."""
    rule = tensor.compare
    return rule is not None and rule.mode == "index" and rule.ties == "any"


def permuted_ties(ir: KernelIR, tensor: Tensor, answer: Answer, inputs: Mapping[str, Array]) -> Array | None:
    """Return an output that chooses among equal values otherwise than the truth does, `None` where there are none.

    It is right where `is_free`, and wrong otherwise.
    """
    own = answer.arrays[tensor.name]
    unordered = tensor.compare is not None and tensor.compare.mode == "set"
    if unordered or tensor.name in answer.defined or not own.size:
        return None
    for values in _named_by(ir, tensor, answer, inputs):
        found = _choose_others(rule_axis(tensor), own, values)
        if found is not None:
            return found
    return None if is_free(tensor) else _swapped_beside(tensor, own, ir, answer)


def rule_axis(tensor: Tensor) -> int | None:
    """Return the axis over which an index output runs, `None` where the IR says none."""
    return tensor.compare.axis if tensor.compare is not None else None


def _named_by(ir: KernelIR, tensor: Tensor, answer: Answer, inputs: Mapping[str, Array]) -> list[Array]:
    """Return the arrays whose elements an integer output may name: the declared one, or every input."""
    if tensor.dtype in FLOATS or tensor.dtype == "bool":
        return []
    rule = tensor.compare
    if rule is not None and rule.mode == "index" and rule.of is not None:
        found = inputs.get(rule.of)
        found = answer.arrays.get(rule.of) if found is None else found
        return [] if found is None else [np.asarray(found)]
    return [np.asarray(inputs[t.name]) for t in ir.inputs]


def _choose_others(axis: int | None, own: Array, values: Array) -> Array | None:
    """Return indices with each replaced by the last unused one of an equal value, `None` where `own` are no indices."""
    many = own.ndim == values.ndim and own.ndim > 0
    if own.size == 1 and axis is None:
        lines, picked = values.reshape(1, -1), own.reshape(1, -1)
    elif not values.ndim:
        return None
    else:
        at = -1 if axis is None else axis
        if not -values.ndim <= at < values.ndim:
            return None
        lines = np.moveaxis(values, at, -1)
        lead = lines.shape[:-1]
        picked = np.moveaxis(own, at, -1) if many else own[..., None]
        if picked.shape[:-1] != lead:
            return None
        lines, picked = lines.reshape(-1, lines.shape[-1]), picked.reshape(-1, picked.shape[-1])
    length = lines.shape[-1]
    picked = picked.astype(np.int64)
    if not length or not picked.size or picked.min() < 0 or picked.max() >= length:
        return None
    ordered = np.sort(lines.astype(np.float64) if lines.dtype.kind not in "iub" else lines, axis=-1)
    ties = (ordered[:, 1:] == ordered[:, :-1]).any(axis=-1)
    other = picked.copy()
    for number in np.flatnonzero(ties):
        other[number] = _line(lines[number], picked[number])
    if np.array_equal(other, picked):
        return None
    if own.size == 1 and axis is None:
        return other.reshape(own.shape)
    at = -1 if axis is None else axis
    if not many:
        return other.reshape(own.shape)
    moved = np.moveaxis(own, at, -1).shape
    return np.moveaxis(other.reshape(moved), -1, at)


def _line(values: Array, picked: Array) -> Array:
    """Return, for one line, the picked indices with those of equal values in the opposite order, the last ones first."""
    other = picked.copy()
    chosen = values[picked]
    for value in np.unique(chosen[~np.isnan(chosen.astype(np.float64))]):
        places = np.flatnonzero(chosen == value)
        equal = np.flatnonzero(values == value)[::-1]
        if len(equal) >= len(places):
            other[places] = equal[: len(places)]
    return other


def _swapped_beside(tensor: Tensor, own: Array, ir: KernelIR, answer: Answer) -> Array | None:
    """Return an output whose neighbours are exchanged wherever another output of its shape has equal neighbours."""
    if not own.ndim or own.shape[-1] < 2:
        return None
    for key in ir.outputs:
        keys = answer.arrays[key.name]
        if key.name == tensor.name or keys.shape != own.shape or key.name in answer.defined:
            continue
        equal = keys[..., :-1] == keys[..., 1:]
        equal[..., 1:] &= ~equal[..., :-1]  # of three in a row, the first two
        one, two = own[..., :-1][equal], own[..., 1:][equal]
        if not np.array_equal(one, two):
            other = own.copy()
            other[..., :-1][equal], other[..., 1:][equal] = two, one
            return other
    return None
