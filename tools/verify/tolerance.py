"""How far an honest kernel may be from the truth.

Error model. A backward-stable float algorithm returns the exact result for inputs perturbed by a few roundings
(Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., ch. 1 and 4). So the error of an output element is
its own rounding, plus what perturbed inputs do to it, plus the growth of accumulated roundings, for which the
probabilistic bound c * sqrt(n) * u holds with c of a few units (Higham and Mary, SIAM J. Sci. Comput. 41(5), 2019).
The middle term is measured, not guessed: the reference is evaluated on inputs perturbed by one unit roundoff, which
shows cancellation (a variance at a large offset, a sum of mixed signs) where a formula in |y| alone would not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.expr import ExprError
from cuda_harness.state.ir import KernelIR, Tensor

Array = NDArray[Any]

UNIT_ROUNDOFF: dict[str, float] = {
    "float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float8_e4m3": 2.0**-4,
    "float8_e5m2": 2.0**-3,
}  # fmt: skip
SMALLEST: dict[str, float] = {
    "float64": 2.0**-1074, "float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133, "float8_e4m3": 2.0**-9,
    "float8_e5m2": 2.0**-16,
}  # fmt: skip
"""Smallest positive subnormal: the absolute rounding near zero."""
_TF32 = 2.0**-11
_SMALLEST_NORMAL = 2.0**-126
_VANISHES = 80.0
"""Arguments from here on bring exponentials to the end of float32: `1 / (1 + exp(89))` is 0, the truth is 2e-39."""
_ROUNDING, _NEAR_ZERO = 1.05, 0.51
"""An element's own rounding: a little more than half a unit in its last place, also near zero."""
_CHAIN = 24.0
"""Roundings of an element-wise chain with library functions of up to a few units in the last place each."""
_GROWTH = 6.0
"""c of the probabilistic bound."""
_CONDITION = 16.0
"""Roundings that enter like perturbed inputs, in units of one."""
_SHARE = 2e-3
"""Most, relative to an element and the output's usual size, that the condition of other elements lends to one element.

An output that is saturated (a softmax near one) hardly moves when inputs do, yet an honest kernel that contracts
its product into the exponent carries that rounding; regimes with a mild condition keep this share near zero.
"""


@dataclass(frozen=True)
class Tolerance:
    """Bounds for one output: element by element, and on the norm of the whole error."""

    element: Array
    norm: float
    """Bound on ||got - expected|| / ||expected||."""
    unit: float
    """Unit roundoff of the arithmetic that was assumed."""


_BLOCK = 1 << 17
"""Elements of one piece of a sum: its temporaries stay in the cache."""


def accumulation_unit(ir: KernelIR, tensor: Tensor) -> float:
    """Return the unit roundoff of honest arithmetic for this output: float32 sums for 16-bit types."""
    if ir.numerics.precision == "allow_half":
        return UNIT_ROUNDOFF["float16"] if tensor.dtype != "bfloat16" else UNIT_ROUNDOFF["bfloat16"]
    if ir.numerics.precision == "allow_tf32":
        return _TF32
    floats = {t.dtype for t in ir.tensors if t.dtype in UNIT_ROUNDOFF}
    return UNIT_ROUNDOFF["float64"] if floats == {"float64"} else UNIT_ROUNDOFF["float32"]


def exponent_argument(ir: KernelIR, inputs: Mapping[str, Array]) -> float:
    """Return a bound on arguments of exponentials, 0 where the IR speaks of none.

    An argument A carries an absolute rounding of A * u, which exp turns into a relative error of A * u (Higham, ch. 1);
    a kernel that contracts `scale * x - max` into one FMA has it even where the output is saturated.
    """
    words = " ".join((ir.name, ir.summary, *(f"{s.op} {s.formula}" for s in ir.steps))).lower()
    if not any(w in words for w in ("exp", "softmax", "sigmoid", "tanh", "softplus", "logistic", "pow")):
        return 0.0
    largest = 0.0
    for tensor in ir.inputs:
        if tensor.dtype in UNIT_ROUNDOFF and tensor.name in inputs and inputs[tensor.name].size:
            value = np.abs(inputs[tensor.name].astype(np.float64))
            live = value[np.isfinite(value)]
            largest = max(largest, float(live.max()) if live.size else 0.0)
    factor = 1.0
    for scalar in ir.scalars:
        factor = max(factor, *(abs(float(v)) for v in (scalar.value, scalar.low or 0, scalar.high or 0)))
    return min(largest * factor, 1e4)


def tolerance(
    ir: KernelIR,
    tensor: Tensor,
    dims: Mapping[str, int],
    expected: Array,
    sensitivity: Array | None,
    argument: float = 0.0,
) -> Tolerance:
    """Return the bounds for `tensor`.

    Args:
        ir: Precision policy and dtypes.
        tensor: The output and its own compare rule; a given rtol or atol replaces the model.
        dims: Sizes, for the reduction length.
        expected: The truth in float64, shaped.
        sensitivity: |reference(perturbed by one unit roundoff) - reference|, same shape; `None` where not measured.
        argument: Bound on arguments of exponentials in this case.
    """
    rule = tensor.compare
    magnitude = np.abs(np.where(np.isfinite(expected), expected, 0.0))
    out_unit = UNIT_ROUNDOFF[tensor.dtype]
    rounding = _ROUNDING * out_unit * magnitude + _NEAR_ZERO * SMALLEST[tensor.dtype]
    unit = accumulation_unit(ir, tensor)
    if _is_stated(tensor):
        assert rule is not None  # noqa: S101 - it is stated
        element = (rule.rtol or 0.0) * magnitude + (rule.atol or 0.0) + rounding
        return Tolerance(element, float("inf"), unit)
    length = _reduction_length(rule.reduction_length if rule else None, dims)
    single = UNIT_ROUNDOFF["float32"]
    sums = _unit_of_sums(ir, unit)
    growth = _growth(length, unit, sums) + 2 * argument * min(unit, single)
    element = rounding + growth * magnitude + SMALLEST["float32" if tensor.dtype != "float64" else "float64"]
    vanishing = _SMALLEST_NORMAL if argument > _VANISHES and tensor.dtype != "float64" else 0.0
    element = element + vanishing
    rms = root_mean_square(magnitude)
    condition = 0.0
    if sensitivity is not None and sensitivity.size:
        sense = np.where(np.isfinite(sensitivity), sensitivity, 0.0) * (unit / single)
        reach = (_CONDITION + _GROWTH * np.sqrt(length) * 0.5) * (
            1.0 if unit <= single else max(0.25, min(1.0, 4 * sums / unit))
        )
        typical = root_mean_square(sense)
        worst = float(np.max(sense))
        share = _SHARE * max(1.0, unit / UNIT_ROUNDOFF["float32"] / 64)
        lent = np.minimum(reach * worst, share * (magnitude + usual(magnitude, rms)))
        element = element + reach * sense + lent
        condition = reach * typical
    norm = (
        _ROUNDING * out_unit
        + 2 * growth
        + ((3 * condition + SMALLEST[tensor.dtype] + vanishing) / rms if rms > 0 else 0.0)
    )
    return Tolerance(element, norm, unit)


def least(ir: KernelIR, tensor: Tensor, dims: Mapping[str, int]) -> tuple[float, float]:
    """Return the share of an element and the absolute error that every tolerance of `tensor` allows, whatever the case.

    An output whose every element is within them is within its norm too: the norm has twice the growth.
    """
    rule, out_unit = tensor.compare, UNIT_ROUNDOFF[tensor.dtype]
    relative, absolute = _ROUNDING * out_unit, _NEAR_ZERO * SMALLEST[tensor.dtype]
    if _is_stated(tensor):
        assert rule is not None  # noqa: S101 - it is stated
        return relative + (rule.rtol or 0.0), absolute + (rule.atol or 0.0)
    unit = accumulation_unit(ir, tensor)
    length = _reduction_length(rule.reduction_length if rule else None, dims)
    return relative + _growth(length, unit, _unit_of_sums(ir, unit)), absolute


def _is_stated(tensor: Tensor) -> bool:
    """Return whether the request states a tolerance, which replaces the derived one."""
    rule = tensor.compare
    return rule is not None and (rule.rtol is not None or rule.atol is not None)


def _unit_of_sums(ir: KernelIR, unit: float) -> float:
    """Return the unit roundoff of sums: TF32 and half products round their inputs a few times, the sums are float32."""
    return unit if ir.numerics.precision == "allow_half" else min(unit, UNIT_ROUNDOFF["float32"])


def _growth(length: float, unit: float, sums: float) -> float:
    """Return how far the roundings of an element-wise chain and of a sum carry, relative to the result."""
    return (_CHAIN + _GROWTH * float(np.sqrt(length))) * sums + 4 * max(unit - sums, 0.0)


def with_slack(allowed: Tolerance, expected: Array, slack: Array) -> Tolerance:
    """Return bounds with `slack` added to those of the elements, and its root mean square to that of the norm."""
    rms = root_mean_square(np.where(np.isfinite(expected), expected, 0.0))
    norm = allowed.norm + (root_mean_square(slack) / rms if rms > 0 else 0.0)
    return Tolerance(allowed.element + slack, norm, allowed.unit)


def usual(magnitude: Array, rms: float) -> float:
    """Return the size that elements usually have: the RMS, unless a few huge elements make it.

    Forces at short distance or reciprocals span many orders of magnitude; the RMS would be that of the largest, and
    every other element would pass whatever it is. For normal values four times the median is above the RMS. Elements
    below the smallest normal float32 do not count: where half of an output has vanished, the other half is the usual.
    """
    live = magnitude[magnitude > _SMALLEST_NORMAL]
    return min(rms, 4.0 * float(np.median(live))) if live.size else rms


def root_mean_square(values: Array) -> float:
    """Return the root mean square of finite values, 0 for none; scaled, so that squares neither overflow nor vanish."""
    largest = float(np.max(np.abs(values))) if values.size else 0.0
    if largest == 0.0:
        return 0.0
    flat, total = np.ravel(values), 0.0
    for first in range(0, flat.size, _BLOCK):
        scaled = flat[first : first + _BLOCK] / largest
        total += float(np.sum(np.square(scaled, out=scaled)))
    return largest * float(np.sqrt(total / flat.size))


def _reduction_length(expr: Any, dims: Mapping[str, int]) -> float:  # noqa: ANN401 - Expr or None
    if expr is None:
        return 1.0
    try:
        return float(max(1, expr.evaluate(dims)))
    except ExprError:
        return 1.0
