"""Whether words and a formula in one request mean the same computation, found out by trying."""

import math
import random
from itertools import permutations
from typing import Any

from cuda_harness.state.ir import KernelIR, Tensor
from cuda_harness.tools.formula.binding import Problem
from cuda_harness.tools.formula.evaluate import Evaluation, Values

_SIZES = (3, 4, 2, 5)
_TRIES = ((0.1, 0.9), (-3.0, 3.0))
"""Inputs inside (0, 1) suit logarithms and probabilities; the wider range shows what a sign does."""


def same_computation(one: dict[str, Any], two: dict[str, Any]) -> bool | None:
    """Return whether two IRs give equal outputs on small inputs; `None` when they cannot be compared."""
    first, second = KernelIR.model_validate(one), KernelIR.model_validate(two)
    if len(first.inputs) != len(second.inputs) or len(first.outputs) != len(second.outputs):
        return None
    if len(first.scalars) != len(second.scalars) or len(first.dims) != len(second.dims):
        return None
    verdict: bool | None = None
    for order in permutations(range(len(second.inputs))):
        arranged = [second.inputs[n] for n in order]
        for places in permutations(range(len(second.dims))):
            found = _try(first, second, arranged, places)
            if found:
                return True
            verdict = found if found is not None else verdict
    return verdict


def _try(first: KernelIR, second: KernelIR, arranged: list[Tensor], places: tuple[int, ...]) -> bool | None:
    sizes = {d.name: _SIZES[n % len(_SIZES)] for n, d in enumerate(first.dims)}
    other = {second.dims[p].name: sizes[first.dims[n].name] for n, p in enumerate(places)}
    shapes = [t.dims(sizes) for t in first.inputs]
    if shapes != [t.dims(other) for t in arranged]:
        return None
    if [t.dims(sizes) for t in first.outputs] != [t.dims(other) for t in second.outputs]:
        return None
    compared = False
    for low, high in _TRIES:
        rng = random.Random(7)  # noqa: S311 - no secret: the same numbers every time
        data = [_draw(t, first, s, sizes, rng, low, high) for t, s in zip(first.inputs, shapes, strict=True)]
        scalars = [0.6 + 0.7 * n for n in range(len(first.scalars))]
        try:
            left = _outputs(
                first, sizes, scalars, {t.name: v for t, v in zip(first.inputs, data, strict=True)}
            )
            right = _outputs(second, other, scalars, {t.name: v for t, v in zip(arranged, data, strict=True)})
        except (ArithmeticError, ValueError, KeyError):
            continue
        compared = True
        if not all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-7) for a, b in zip(left, right, strict=True)):
            return False
    return True if compared else None


def _draw(
    tensor: Tensor,
    ir: KernelIR,
    shape: tuple[int, ...],
    sizes: dict[str, int],
    rng: random.Random,
    low: float,
    high: float,
) -> Values:
    from itertools import product

    integer = tensor.dtype.startswith(("int", "uint")) and any(t.dtype != tensor.dtype for t in ir.inputs)
    least = min(sizes.values())
    return {
        place: rng.randrange(least) if integer else rng.uniform(low, high)
        for place in product(*(range(n) for n in shape))
    }


def _outputs(
    ir: KernelIR, sizes: dict[str, int], scalars: list[float], inputs: dict[str, Values]
) -> list[float]:
    problem = Problem(ir)
    names = {s.name: v for s, v in zip(ir.scalars, scalars, strict=True)}
    done = Evaluation(problem, sizes, names, inputs)
    found: list[float] = []
    for tensor in ir.outputs:
        found += [done.arrays[tensor.name][p] for p in sorted(done.arrays[tensor.name])]
    return found
