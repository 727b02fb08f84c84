"""Drawing inputs: distributions, regimes, scalars; from a secret seed, reproducible by it."""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.expr import Expr, ExprError
from cuda_harness.state.ir import KernelIR, Scalar, Tensor
from cuda_harness.state.names import FLOATS
from cuda_harness.state.suite import Bound, Case, Inputs, InputSpec
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.synthesize.regimes import HALF, scale_of
from cuda_harness.tools.verify.tolerance import SMALLEST

Array = NDArray[Any]


def draw(ir: KernelIR, specs: Inputs, case: Case) -> dict[str, Array]:
    """Return every input of a case, shaped, C-contiguous, in its exact dtype.

    Raises:
        ConfigError: If a distribution cannot be drawn for this tensor or these sizes; names it.
    """
    found = {}
    for tensor in ir.inputs:
        key = zlib.crc32(f"{tensor.name}:{case.id}".encode())
        rng = np.random.default_rng(np.random.SeedSequence([case.seed, key]))
        shape = tensor.dims(case.dims)
        spec = specs.specs.get(tensor.name)
        try:
            values = _given(spec, shape, case, rng, ir) if spec else _free(tensor, shape, case.regime, rng)
        except (ValueError, ExprError, OverflowError) as exc:
            msg = f"input {tensor.name!r} cannot be drawn at {case.dims}: {exc}"
            raise ConfigError(msg, remedy="mend its entry in inputs.json") from exc
        found[tensor.name] = _exact(tensor.dtype, values, shape)
        if (
            spec is not None and spec.distribution == "positive"
        ):  # what the type rounds to zero is not positive
            found[tensor.name] = _positive(tensor.dtype, found[tensor.name])
    return found


def _exact(dtype: str, values: Array, shape: tuple[int, ...]) -> Array:
    target = np_dtype(dtype)
    if dtype not in FLOATS and dtype != "bool":
        info = np.iinfo(target)
        values = np.clip(values, info.min, info.max) if values.dtype.kind == "f" else values
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(values.astype(target).reshape(shape))


def _positive(dtype: str, values: Array) -> Array:
    least = np.asarray(SMALLEST[dtype]).astype(values.dtype)
    return np.where(values == 0, least, values)


def _free(tensor: Tensor, shape: tuple[int, ...], regime: str, rng: np.random.Generator) -> Array:
    """Return values of an input whose domain the IR leaves open."""
    if tensor.dtype == "bool":
        return rng.random(shape) < (0.05 if regime == "sparse" else 0.5)
    if tensor.dtype not in FLOATS:
        return _integers(tensor.dtype, shape, regime, rng)
    base = rng.standard_normal(shape)
    if tensor.dtype in {"float8_e4m3", "float8_e5m2"}:
        base = np.clip(base, -8, 8)
    return _shaped(base, regime, tensor.dtype, rng)


def _shaped(base: Array, regime: str, dtype: str, rng: np.random.Generator) -> Array:
    size = base.size
    flat = base.reshape(-1)
    match regime:
        case "negated":
            return -base
        case "large" | "small":
            return base * scale_of(regime, dtype)
        case "offset":
            return base + (8.0 if dtype in HALF else 300.0)
        case "equal":
            return np.full_like(base, 0.75)
        case "ties":
            return rng.choice(np.array([-1.5, -0.5, 0.0, 0.5, 1.5]), size=base.shape)
        case "outlier" if size:
            flat = flat.copy()
            flat[rng.integers(size)] *= 16.0 if dtype in HALF else 1e3
            return flat.reshape(base.shape)
        case "peaks" if size:
            return base * np.where(
                _seams(base.shape, int(rng.choice((32, 128)))), 16.0 if dtype in HALF else 1e3, 1.0
            )
        case "sorted":
            return np.sort(base, axis=-1) if base.ndim else base
        case "sparse":
            return np.where(rng.random(base.shape) < 0.8, 0.0, base)
        case "zeros":
            return base * _rows_kept(base.shape, rng)
        case "below":
            return base - (8.0 if dtype in HALF else 300.0)
        case "lowest" | "highest":
            return (0.5 + rng.random(base.shape)) * (-1e35 if regime == "lowest" else 1e35)
        case "vast":
            return base * 1e15
        case "twins":
            return _twins(base, rng)
        case "subnormal":
            tiny = 1e-310 if dtype == "float64" else 1e-40
            return np.where(rng.random(base.shape) < 0.3, base * tiny, base)
        case "nonfinite" if size:
            flat = flat.copy()
            for value in (np.nan, np.inf, -np.inf):
                flat[rng.integers(size, size=max(1, size // 97))] = value
            return flat.reshape(base.shape)
        case _:
            return base


def _twins(base: Array, rng: np.random.Generator) -> Array:
    """Return rows of the last axis that come again with a period: points that coincide, without other ties.

    A period of 32 or 8 puts twins into the hands of one lane, an odd one into those of different lanes.
    """
    if base.ndim < 2:
        return base
    rows = base.shape[-2]
    periods = [p for p in (32, 8, 3) if 3 * p <= rows] or [1]
    return np.take(base, np.arange(rows) % int(rng.choice(periods)), axis=-2)


def _rows_kept(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return 0 for about half of the rows of the last axis, the first among them, and 1 for the others; 0 for a vector."""
    if len(shape) < 2:
        return np.zeros(shape)
    kept = (rng.random((*shape[:-1], 1)) < 0.5).astype(np.float64)
    kept.reshape(-1)[:1] = 0.0
    return kept


def _seams(shape: tuple[int, ...], period: int) -> Array:
    """Return a mask of the elements beside the seams of blocks: where a wrong stride leaves elements out.

    Odd rows of the last axis are counted from the row's start, even ones from the start of the tensor.
    """
    size = int(np.prod(shape, dtype=np.int64))
    whole = np.arange(size).reshape(shape) % period
    if len(shape) < 2:
        return np.isin(whole, (0, period - 1))
    along = np.broadcast_to(np.arange(shape[-1]) % period, shape)
    row = (np.arange(size) // max(shape[-1], 1)).reshape(shape)
    return np.isin(np.where(row % 2 == 1, along, whole), (0, period - 1))


def _integers(dtype: str, shape: tuple[int, ...], regime: str, rng: np.random.Generator) -> Array:
    info = np.iinfo(np_dtype(dtype))
    low = -16 if info.min < 0 else 0
    match regime:
        case "extremes":
            picked = rng.choice(np.array([info.min, info.max, 0, 1], dtype=np_dtype(dtype)), size=shape)
            usual = rng.integers(low, 17, size=shape).astype(np_dtype(dtype))
            return np.where(rng.random(shape) < 0.2, picked, usual)
        case "equal":
            return np.full(shape, 3, dtype=np_dtype(dtype))
        case "ties":
            return rng.integers(0, 3, size=shape)
        case "sorted":
            return (
                np.sort(rng.integers(low, 17, size=shape), axis=-1)
                if shape
                else rng.integers(low, 17, size=shape)
            )
        case "sparse":
            return np.where(rng.random(shape) < 0.8, 0, rng.integers(low, 17, size=shape))
        case _:
            high = min(info.max, 1 << 20) if regime == "large" else 17
            return rng.integers(low, high, size=shape)


def _bound(value: Bound | None, default: float, dims: Mapping[str, int]) -> float:
    if value is None:
        return default
    return float(Expr(value).evaluate(dims)) if isinstance(value, str) else float(value)


def _given(
    spec: InputSpec, shape: tuple[int, ...], case: Case, rng: np.random.Generator, ir: KernelIR
) -> Array:
    """Return values of a stated distribution; regimes only choose other points of the same domain."""
    size = int(np.prod(shape, dtype=np.int64))
    same, few = case.regime == "equal", case.regime == "ties"
    match spec.distribution:
        case "normal":
            base = spec.mean + spec.std * rng.standard_normal(shape)
            if few:  # quarters: thresholds such as zero are met exactly
                base = np.round(base * 4) / 4
            return np.full(shape, spec.mean + 0.5 * spec.std) if same else base
        case "uniform":
            low, high = _bound(spec.low, 0.0, case.dims), _bound(spec.high, 1.0, case.dims)
            base = low + (high - low) * _unit(shape, rng, few=few)
            return (
                np.full(shape, (low + high) / 2)
                if same
                else np.sort(base, axis=-1)
                if case.regime == "sorted" and shape
                else base
            )
        case "integers":
            low, high = int(_bound(spec.low, 0, case.dims)), int(_bound(spec.high, 10, case.dims))
            if size and high <= low:
                msg = f"the range {low}..{high} is empty"
                raise ValueError(msg)
            if same:
                return np.full(shape, low)
            if case.regime == "chain" and low == 0:
                return _chain(shape, high)
            top = min(high, low + 3) if few else high
            values = rng.integers(low, max(top, low + 1), size=shape)
            return np.sort(values, axis=-1) if case.regime == "sorted" and shape else values
        case "sorted":
            drawn = rng.standard_normal(shape)
            return np.sort(spec.mean + spec.std * (np.round(drawn * 4) / 4 if few else drawn), axis=-1)
        case "permutation":
            return _rows(shape, rng.permutation)
        case "one_hot":
            return _rows(shape, lambda n: np.eye(1, n, int(rng.integers(max(n, 1)))).reshape(-1))
        case "choice":
            if not spec.values:
                msg = "choice needs `values`"
                raise ValueError(msg)
            return rng.choice(np.asarray(spec.values), size=shape)
        case "simplex":
            raw = np.ones(shape) if same else -np.log(1.0 - rng.random(shape))
            return np.asarray(raw / raw.sum(axis=spec.axis, keepdims=True))
        case "positive":
            high = _bound(spec.high, 4.0, case.dims)
            low = max(_bound(spec.low, 0.05, case.dims), 0.0)
            return (
                np.full(shape, (low + high) / 2) if same else low + (high - low) * _unit(shape, rng, few=few)
            )
        case "spd":
            n = shape[-1]
            a = rng.standard_normal(shape)
            return a @ np.swapaxes(a, -1, -2) / n + np.eye(n) * 1.5
        case _:
            return _offsets(spec, size, case, rng, ir)


def _chain(shape: tuple[int, ...], high: int) -> Array:
    """Return places that each lead to the next: with offsets of even rows a path through all rows that own one, deeper than any drawn.

    The owner of entry `e` of `m` is row `e * high // m`; the entry names the owner of the one after it.
    """
    size = int(np.prod(shape, dtype=np.int64))
    following = (np.arange(size, dtype=np.int64) + 1) * high // max(size, 1)
    return (following % high).reshape(shape)


def _unit(shape: tuple[int, ...], rng: np.random.Generator, *, few: bool) -> Array:
    """Return values between 0 and 1, 1 left out; few: of eight different ones, so that equal values occur."""
    return (rng.integers(0, 8, size=shape) + 0.5) / 8 if few else rng.random(shape)


def _rows(shape: tuple[int, ...], make: Any) -> Array:  # noqa: ANN401 - a function of the row's length
    if not shape:
        return np.asarray(make(1)[0])
    rows = int(np.prod(shape[:-1], dtype=np.int64))
    return np.stack([make(shape[-1]) for _ in range(rows)]).reshape(shape) if rows else np.zeros(shape)


def _offsets(spec: InputSpec, size: int, case: Case, rng: np.random.Generator, ir: KernelIR) -> Array:
    """Return row offsets of a sparse matrix: 0 first, non-decreasing, the number of entries last."""
    if spec.of is not None:
        entries = int(np.prod(ir.tensor(spec.of).dims(case.dims), dtype=np.int64))
    else:
        entries = int(_bound(spec.nnz if spec.nnz is not None else spec.high, 0, case.dims))
    if size < 1:
        msg = "csr_offsets needs at least one element"
        raise ValueError(msg)
    if case.regime == "chain":
        places = np.arange(size, dtype=np.int64)
        return -(-places * entries // max(size - 1, 1)) if size > 1 else np.zeros(1, dtype=np.int64)
    inner = np.sort(rng.integers(0, entries + 1, size=size - 1)) if size > 1 else np.zeros(0, dtype=np.int64)
    offsets = np.concatenate([[0], inner]).astype(np.int64)
    offsets[-1] = entries if size > 1 else 0
    return offsets


def scalars_of(ir: KernelIR, case_id: str, seed: int) -> dict[str, float | int | bool]:
    """Return a value of every scalar: fixed ones as stated, free ones varied away from 0 and 1."""
    found: dict[str, float | int | bool] = {}
    for scalar in ir.scalars:
        rng = np.random.default_rng(
            np.random.SeedSequence([seed, zlib.crc32(f"{scalar.name}:{case_id}".encode())])
        )
        found[scalar.name] = scalar.value if scalar.fixed else _vary(scalar, rng)
    return found


def _vary(scalar: Scalar, rng: np.random.Generator) -> float | int | bool:
    if scalar.dtype == "bool":
        return bool(rng.integers(2))
    value = float(scalar.value)
    low = float(scalar.low) if scalar.low is not None else None
    high = float(scalar.high) if scalar.high is not None else None
    if 0 < value < 1e-30:  # multiples of it would all round to one number
        value = 0.0
    if low is None:
        low = value * 0.6 if value > 0 else value - 1.0 if high is None else min(value, high - 1.0)
    if high is None:
        high = value * 1.7 if value > 0 else value + 1.0
    if scalar.dtype in FLOATS:
        drawn = low + (high - low) * (0.15 + 0.7 * float(rng.random()))
        return float(np.asarray(drawn).astype(np_dtype(scalar.dtype)).astype(np.float64))
    return int(rng.integers(int(np.ceil(low)), int(np.floor(high)) + 1)) if high >= low else int(value)
