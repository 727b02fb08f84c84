"""Whether inputs.json fits the IR: what can be told before anything is drawn."""

from collections.abc import Iterator

import numpy as np

from cuda_harness.state.expr import Expr, ExprError
from cuda_harness.state.ir import KernelIR, Tensor
from cuda_harness.state.names import FLOATS
from cuda_harness.state.suite import Bound, InputSpec
from cuda_harness.tools.execute.dtypes import np_dtype

_OF_FLOATS = frozenset({"normal", "simplex", "positive", "spd"})
_ROWS = frozenset({"permutation", "one_hot", "simplex"})


def misfits(ir: KernelIR, tensor: Tensor, spec: InputSpec) -> Iterator[str]:
    """Yield each way in which a distribution contradicts its tensor, in words that follow the tensor's name."""
    kind = spec.distribution
    if tensor.dtype not in FLOATS and kind in _OF_FLOATS:
        yield f"is drawn from {kind}, but it is {tensor.dtype}"
    if kind in _ROWS and not tensor.shape:
        yield f"is drawn from {kind}, but it is one element"
    if kind == "simplex" and tensor.shape and not -len(tensor.shape) <= spec.axis < len(tensor.shape):
        yield f"has no axis {spec.axis}"
    if kind == "spd" and (len(tensor.shape) < 2 or tensor.shape[-1].text != tensor.shape[-2].text):
        yield f"is drawn from spd, but its shape {_shown(tensor)} does not end in a square"
    if kind == "choice" and not spec.values:
        yield "is drawn from choice without `values`"
    if kind == "csr_offsets":
        yield from _offsets(ir, tensor, spec)
    yield from _bounds(ir, tensor, spec)


def _offsets(ir: KernelIR, tensor: Tensor, spec: InputSpec) -> Iterator[str]:
    if tensor.dtype in FLOATS or len(tensor.shape) != 1:
        yield f"is drawn from csr_offsets, but it is {tensor.dtype} of shape {_shown(tensor)}"
    if spec.of is not None and spec.of not in {t.name for t in ir.tensors}:
        yield f"counts the elements of {spec.of!r}, which is no tensor of the IR"
    if spec.of is None and spec.nnz is None and spec.high is None:
        yield "is drawn from csr_offsets without `of` or `nnz`"


def _bounds(ir: KernelIR, tensor: Tensor, spec: InputSpec) -> Iterator[str]:
    """Yield what is wrong with the bounds at the target's sizes; other sizes are tried when they are drawn."""
    values: dict[str, float | int] = {}
    for field, bound in (("low", spec.low), ("high", spec.high), ("nnz", spec.nnz)):
        try:
            found = _value(ir, bound)
        except ExprError as exc:
            yield f"has a {field} that cannot be evaluated: {exc}"
            return
        if found is not None:
            values[field] = found
    low, high = values.get("low"), values.get("high")
    whole = spec.distribution == "integers"
    if low is not None and high is not None and (low >= high if whole else low > high):
        yield f"has an empty range: low is {low:g}, high is {high:g}" + (" (exclusive)" if whole else "")
    if (
        tensor.dtype in FLOATS
        or tensor.dtype == "bool"
        or spec.distribution not in {"integers", "uniform", "choice"}
    ):
        return
    info = np.iinfo(np_dtype(tensor.dtype))
    drawn = [*spec.values, *(v for v in (low, None if high is None else high - whole) if v is not None)]
    beyond = [v for v in drawn if not info.min <= v <= info.max]
    if beyond:
        yield f"is {tensor.dtype}, which cannot hold {beyond[0]:g}"


def _value(ir: KernelIR, bound: Bound | None) -> float | int | None:
    return Expr(bound).evaluate(ir.target_dims) if isinstance(bound, str) else bound


def _shown(tensor: Tensor) -> str:
    return f"[{', '.join(e.text for e in tensor.shape)}]"
