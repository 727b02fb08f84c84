"""One launch of a feature's kernel: inputs, outputs, and what NumPy makes of the inputs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.protocol import (
    Arg,
    Array,
    Buffer,
    Job,
    JobResult,
    LaunchOp,
    Mode,
    PointerArg,
    Program,
    ValueArg,
)

RNG = np.random.default_rng(7)
BF16 = ml_dtypes.bfloat16
_DTYPES = {np.dtype(BF16): "bfloat16"}


@dataclass(frozen=True)
class Feature:
    """One launch: inputs, outputs with their start values, and what NumPy makes of the inputs."""

    inputs: dict[str, Array]
    outputs: dict[str, Array]
    """Start contents; they matter for `accumulates` only, elsewhere the kernel writes all that is compared."""
    expected: Callable[[dict[str, Array]], dict[str, Array]]
    block: int | tuple[int, int, int] = 32
    grid: int | tuple[int, int, int] = 1
    scalars: tuple[int, ...] = ()
    tolerance: float = 0.0
    cooperative: bool = False
    accumulates: frozenset[str] = field(default_factory=frozenset)
    """Outputs that the kernel reads before it writes."""
    shared_bytes: int = 0


def ints(n: int, low: int = -50, high: int = 50) -> Array:
    """Return int32 values in [low, high)."""
    return RNG.integers(low, high, n).astype(np.int32)


def words(n: int) -> Array:
    """Return uint32 values of all sizes."""
    return RNG.integers(0, 2**32, n, dtype=np.uint64).astype(np.uint32)


def normal(n: int, dtype: type = np.float32) -> Array:
    """Return standard normal values."""
    return RNG.normal(size=n).astype(dtype)


def new(n: int, dtype: type = np.int32) -> Array:
    """Return zeros, for an output."""
    return np.zeros(n, dtype)


def program(name: str, feature: Feature) -> Program:
    """Return the one-launch program of a feature's kernel, inputs first, then outputs, then integers."""
    buffers = [Buffer(n, _dtype(a), a.size, "in") for n, a in feature.inputs.items()]
    buffers += [Buffer(n, _dtype(a), a.size, "inout" if n in feature.accumulates else "out") for n, a in feature.outputs.items()]  # fmt: skip
    args: tuple[Arg, ...] = (
        *(PointerArg(b.name) for b in buffers),
        *(ValueArg("int32", v) for v in feature.scalars),
    )
    launch = LaunchOp(
        name,
        _three(feature.grid),
        _three(feature.block),
        feature.shared_bytes,
        args,
        cooperative=feature.cooperative,
    )
    return Program(tuple(buffers), (launch,))


def _three(axes: int | tuple[int, int, int]) -> tuple[int, int, int]:
    return (axes, 1, 1) if isinstance(axes, int) else axes


def _dtype(array: Array) -> str:
    return _DTYPES.get(array.dtype, array.dtype.name)


def run(executor: CpuExecutor, name: str, feature: Feature, source: str, mode: Mode) -> JobResult:
    """Run the feature's launch with `source` in a mode."""
    contents: dict[str, Any] = feature.inputs | {n: feature.outputs[n] for n in feature.accumulates}
    return executor.run(Job(source, program(name, feature), (contents,), mode=mode, deadline_s=60))
