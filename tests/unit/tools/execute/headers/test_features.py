"""Each kernel of `kernels/` runs in both modes with NumPy's numbers, and is real CUDA: NVRTC compiles it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from cuda_harness.state.results import CompileEnvironment, CompileOk
from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.protocol import (
    Arg,
    Array,
    Buffer,
    Job,
    JobNotRun,
    JobOk,
    LaunchOp,
    Mode,
    PointerArg,
    Program,
    ValueArg,
)
from cuda_harness.tools.toolchain.nvrtc import Compiler

KERNELS = Path(__file__).parent / "kernels"
_RNG = np.random.default_rng(7)
BF16 = ml_dtypes.bfloat16


@dataclass(frozen=True)
class Feature:
    """One launch: inputs, outputs with their start values, and what NumPy makes of the inputs."""

    inputs: dict[str, Array]
    outputs: dict[str, Array]
    """Start contents; an array of NaN or -1 stands for "whatever was there" where the kernel writes all."""
    expected: Callable[[dict[str, Array]], dict[str, Array]]
    block: int = 32
    grid: int = 1
    scalars: tuple[int, ...] = ()
    tolerance: float = 0.0
    cooperative: bool = False
    accumulates: frozenset[str] = field(default_factory=frozenset)
    """Outputs that the kernel reads before it writes."""


def _ints(n: int, low: int = -50, high: int = 50) -> Array:
    return _RNG.integers(low, high, n).astype(np.int32)


def _words(n: int) -> Array:
    return _RNG.integers(0, 2**32, n, dtype=np.uint64).astype(np.uint32)


def _half_arithmetic(given: dict[str, Array]) -> dict[str, Array]:
    v = given["x"].astype(np.float64)
    root = np.sqrt(abs(v)).astype(np.float16).astype(np.float64) / 4
    doubled = (2 * v + 1).astype(np.float16).astype(np.float64)
    w: Array = (doubled + root.astype(np.float16)).astype(np.float16).astype(np.float64)
    w = np.where(w > v, np.maximum(w, -v), w)
    return {"y": w.astype(np.float16), "truncated": np.trunc(w).astype(np.int32)}


def _half2_lanes(given: dict[str, Array]) -> dict[str, Array]:
    v = given["x"].astype(np.float64).reshape(32, 2)
    kept = v[(v >= 0).all(axis=1)].sum(axis=0)
    return {"total": np.array([(1.5 * v).sum()], np.float32), "sums": kept.astype(np.float16)}


def _bfloat16_arithmetic(given: dict[str, Array]) -> dict[str, Array]:
    x = given["x"].astype(np.float64)
    v = x.astype(np.float32).astype(BF16).astype(np.float64)
    bits = given["x"].view(np.uint32)
    toward_zero = (bits & 0xFFFF0000).view(np.float32)
    away = ((bits & 0xFFFF0000) + np.where(bits & 0xFFFF, 0x10000, 0).astype(np.uint32)).view(np.float32)
    positive = x >= 0
    return {
        "y": np.maximum(v * v - 1, 0).astype(BF16),
        "up": np.where(positive, away, toward_zero).astype(BF16),
        "down": np.where(positive, toward_zero, away).astype(BF16),
        "sum": np.array([32], BF16),
    }


def _fp8_round_trip(given: dict[str, Array]) -> dict[str, Array]:
    x = given["x"]
    return {
        "e4m3": np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32),
        "e5m2": np.clip(x, -57344, 57344).astype(ml_dtypes.float8_e5m2).astype(np.float32),
    }


def _directed(exact: Array, *, up: bool) -> Array:
    near = exact.astype(np.float32)
    wrong = near.astype(np.float64) < exact if up else near.astype(np.float64) > exact
    return np.where(wrong, np.nextafter(near, np.float32(np.inf if up else -np.inf)), near)


def _rounding_modes(given: dict[str, Array]) -> dict[str, Array]:
    a, b = given["a"].astype(np.float64), given["b"].astype(np.float64)
    scaled = (given["a"] * np.float32(1e9)).astype(np.float64)
    return {
        "lower": _directed(a + b, up=False),
        "upper": _directed(a * b, up=True),
        "near": np.rint(a).astype(np.int32),
        "sat": np.clip(np.trunc(scaled), 0, 2**32 - 1).astype(np.uint32),
    }


def _bit_intrinsics(given: dict[str, Array]) -> dict[str, Array]:
    made = []
    for i, v in enumerate(int(word) for word in given["x"]):
        text = f"{v:032b}"
        first = (v & -v).bit_length()
        r = (32 - v.bit_length()) + 100 * text.count("1") + 10_000 * first
        inverse = ~v & 0xFFFFFFFF
        bytes_ = [v & 255, (v >> 16) & 255, inverse & 255, (inverse >> 16) & 255]
        permuted = sum(byte << (8 * n) for n, byte in enumerate(bytes_))
        funnel = ((((0x12345678 << 32) | v) << (i & 31)) >> 32) & 0xFFFFFFFF
        made.append(r ^ int(text[::-1], 2) ^ permuted ^ funnel ^ ((v * 0x9E3779B9) >> 32))
    return {"y": np.array(made, np.uint64).astype(np.uint32)}


def _simd_words(given: dict[str, Array]) -> dict[str, Array]:
    a, b = (given[name].view(np.uint8).astype(np.int64) for name in "ab")
    signed = (given[name].view(np.int8).astype(np.int64).reshape(-1, 4) for name in "ab")
    return {
        "sum": np.minimum(a + b, 255).astype(np.uint8).view(np.uint32),
        "mean": ((a + b + 1) // 2).astype(np.uint8).view(np.uint32),
        "larger": np.where(a > b, 255, 0).astype(np.uint8).view(np.uint32),
        "dot": (np.multiply(*signed).sum(axis=1) + 7).astype(np.int32),
    }


def _cooperative_tiles(given: dict[str, Array]) -> dict[str, Array]:
    tiles = given["x"].reshape(-1, 8)
    bits = ((tiles > 0) << np.arange(8)).sum(axis=1)
    ranks = np.arange(len(tiles)) % 4
    return {
        "sums": np.repeat(tiles.sum(axis=1), 8).astype(np.int32),
        "scans": (np.cumsum(tiles, axis=1) - tiles).reshape(-1).astype(np.int32),
        "votes": np.repeat(bits + 1000 * ranks, 8).astype(np.uint32),
        "largest": np.repeat(given["x"].reshape(-1, 32).max(axis=1), 32).astype(np.int32),
    }


def _coalesced(given: dict[str, Array]) -> dict[str, Array]:
    x = given["x"]
    even = x % 2 == 0
    rank = np.where(even, np.cumsum(even) - 1 + 100 * even.sum(), -1)
    return {"rank": rank.astype(np.int32), "size": np.array([(x % 3 == v % 3).sum() for v in x], np.int32)}


def _cub_block(given: dict[str, Array]) -> dict[str, Array]:
    x = given["x"]
    return {"scan": (np.cumsum(x) - x).astype(np.int32), "total": np.array([x.sum()], np.int32)}


def _cub_sort(given: dict[str, Array]) -> dict[str, Array]:
    order = np.argsort(given["keys"], kind="stable")
    return {"sorted_keys": given["keys"][order], "sorted_values": given["values"][order]}


def _cub_warp(given: dict[str, Array]) -> dict[str, Array]:
    x = given["x"]
    return {
        "largest": x.reshape(-1, 16).max(axis=1),
        "scan": np.cumsum(x.reshape(-1, 32), axis=1).reshape(-1).astype(np.int32),
    }


def _wmma_half(given: dict[str, Array]) -> dict[str, Array]:
    a, b = (given[name].astype(np.float64).reshape(16, 16) for name in "ab")
    return {"c": (2 * a @ b.T).reshape(-1).astype(np.float32)}


def _wmma_int8(given: dict[str, Array]) -> dict[str, Array]:
    a, b = (given[name].astype(np.int64).reshape(16, 16) for name in "ab")
    return {"c": (a @ b + 5).T.reshape(-1).astype(np.int32)}


def _atomic_references(given: dict[str, Array]) -> dict[str, Array]:
    x = given["x"]
    product = (5 * 3**32) & 0xFFFFFFFF
    return {
        "sum": np.array([x.sum()], np.int32),
        "largest": np.array([max(x.max(), -1000)], np.int32),
        "product": np.array([product], np.uint32).view(np.int32),
    }


def _std_names(given: dict[str, Array]) -> dict[str, Array]:
    x = given["x"].astype(np.float64)
    z = (x + 1j) ** 2
    bits = np.array([(i).bit_count() for i in range(32)])
    return {"y": (z.real + z.imag + x[::-1] + bits).astype(np.float32)}


def _inline_ptx(given: dict[str, Array]) -> dict[str, Array]:
    v, lane = given["x"].astype(np.uint64), np.arange(32, dtype=np.uint64)
    mixed = v ^ lane ^ 0x55
    high = ((v * 0x9E3779B9) >> np.uint64(32)) + 1
    shuffled = np.concatenate([mixed[:1], mixed[:-1]])
    return {"y": (shuffled + high + (lane > 0) * np.uint64(1000)).astype(np.uint32)}


def _reversed_rows(width: int, dtype: type) -> Callable[[dict[str, Array]], dict[str, Array]]:
    return lambda given: {"y": given["x"].reshape(-1, width)[:, ::-1].reshape(-1).astype(dtype)}


def _reversed_vectors(rows: int) -> Callable[[dict[str, Array]], dict[str, Array]]:
    return lambda given: {"y": given["x"].reshape(rows, 32, 4)[:, ::-1].reshape(-1)}


def _normal(n: int, dtype: type = np.float32) -> Array:
    return _RNG.normal(size=n).astype(dtype)


def _new(n: int, dtype: type = np.int32) -> Array:
    return np.zeros(n, dtype)


FEATURES = {
    "half_arithmetic": Feature({"x": _normal(100, np.float16)}, {"y": _new(100, np.float16), "truncated": _new(100)}, _half_arithmetic, 128, scalars=(100,)),
    "half2_lanes": Feature({"x": _RNG.integers(-8, 8, 64).astype(np.float16)}, {"total": _new(1, np.float32), "sums": _new(2, np.float16)}, _half2_lanes, accumulates=frozenset({"sums"})),
    "bfloat16_arithmetic": Feature({"x": _normal(32)}, {"y": _new(32, BF16), "up": _new(32, BF16), "down": _new(32, BF16), "sum": _new(1, BF16)}, _bfloat16_arithmetic, accumulates=frozenset({"sum"})),
    "fp8_round_trip": Feature({"x": _normal(32) * np.float32(100)}, {"e4m3": _new(32, np.float32), "e5m2": _new(32, np.float32)}, _fp8_round_trip),
    "rounding_modes": Feature({"a": _normal(32), "b": _normal(32)}, {"lower": _new(32, np.float32), "upper": _new(32, np.float32), "near": _new(32), "sat": _new(32, np.uint32)}, _rounding_modes),
    "bit_intrinsics": Feature({"x": _words(32)}, {"y": _new(32, np.uint32)}, _bit_intrinsics),
    "simd_words": Feature({"a": _words(32), "b": _words(32)}, {"sum": _new(32, np.uint32), "mean": _new(32, np.uint32), "larger": _new(32, np.uint32), "dot": _new(32)}, _simd_words),
    "cooperative_tiles": Feature({"x": _ints(64)}, {"sums": _new(64), "scans": _new(64), "votes": _new(64, np.uint32), "largest": _new(64)}, _cooperative_tiles, 64),
    "coalesced_and_labels": Feature({"x": _ints(32, 0, 100)}, {"rank": _new(32), "size": _new(32)}, _coalesced),
    "grid_sync": Feature({"x": _ints(128)}, {"partial": _new(128), "y": _new(128)}, lambda g: {"partial": 2 * g["x"], "y": 2 * g["x"][::-1]}, 32, 4, cooperative=True),
    "group_memcpy_async": Feature({"x": _normal(256)}, {"y": _new(256, np.float32)}, _reversed_rows(128, np.float32), 128, 2),
    "cub_block_primitives": Feature({"x": _ints(256)}, {"scan": _new(256), "total": _new(1)}, _cub_block, 64),
    "cub_radix_sort": Feature({"keys": _normal(128), "values": _ints(128)}, {"sorted_keys": _new(128, np.float32), "sorted_values": _new(128)}, _cub_sort, 64),
    "cub_warp_primitives": Feature({"x": _ints(64)}, {"largest": _new(4), "scan": _new(64)}, _cub_warp, 64),
    "wmma_half": Feature({"a": _normal(256, np.float16), "b": _normal(256, np.float16)}, {"c": _new(256, np.float32)}, _wmma_half, tolerance=1e-4),
    "wmma_int8": Feature({"a": _RNG.integers(-128, 128, 256).astype(np.int8), "b": _RNG.integers(-128, 128, 256).astype(np.int8)}, {"c": _new(256)}, _wmma_int8),
    "pipeline_primitives": Feature({"x": _normal(256)}, {"y": _new(256, np.float32)}, _reversed_vectors(2)),
    "block_barrier": Feature({"x": _ints(64)}, {"y": _new(64)}, lambda g: {"y": (2 * g["x"][::-1])[np.arange(64) ^ 1]}, 64),
    "block_pipeline": Feature({"x": _ints(256)}, {"y": _new(256)}, _reversed_rows(64, np.int32), 64, scalars=(4,)),
    "atomic_references": Feature({"x": _ints(32)}, {"sum": _new(1), "largest": np.array([-1000], np.int32), "product": np.array([5], np.int32)}, _atomic_references, accumulates=frozenset({"sum", "largest", "product"})),
    "std_names": Feature({"x": _normal(32)}, {"y": _new(32, np.float32)}, _std_names, tolerance=1e-5),
    "inline_ptx": Feature({"x": _words(32)}, {"y": _new(32, np.uint32)}, _inline_ptx),
    "inline_cp_async": Feature({"x": _normal(128)}, {"y": _new(128, np.float32)}, _reversed_vectors(1)),
}  # fmt: skip

_DTYPES = {np.dtype(BF16): "bfloat16"}


def program(name: str, feature: Feature) -> Program:
    """Return the one-launch program of a feature's kernel, inputs first, then outputs, then integers."""
    buffers = [Buffer(n, _dtype(a), a.size, "in") for n, a in feature.inputs.items()]
    buffers += [Buffer(n, _dtype(a), a.size, "inout" if n in feature.accumulates else "out") for n, a in feature.outputs.items()]  # fmt: skip
    args: tuple[Arg, ...] = (
        *(PointerArg(b.name) for b in buffers),
        *(ValueArg("int32", v) for v in feature.scalars),
    )
    launch = LaunchOp(
        name, (feature.grid, 1, 1), (feature.block, 1, 1), 0, args, cooperative=feature.cooperative
    )
    return Program(tuple(buffers), (launch,))


def _dtype(array: Array) -> str:
    return _DTYPES.get(array.dtype, array.dtype.name)


def run(executor: CpuExecutor, name: str, source: str, mode: Mode) -> Any:
    """Run one feature's launch with `source` in a mode."""
    feature = FEATURES[name]
    contents = feature.inputs | {n: feature.outputs[n] for n in feature.accumulates}
    return executor.run(Job(source, program(name, feature), (contents,), mode=mode, deadline_s=60))


@pytest.mark.parametrize("mode", ["plain", "check"])
@pytest.mark.parametrize("name", FEATURES)
def test_feature_gives_numpys_numbers(executor: CpuExecutor, name: str, mode: Mode) -> None:
    feature = FEATURES[name]

    result = run(executor, name, (KERNELS / f"{name}.cu").read_text(), mode)

    assert isinstance(result, JobOk), result
    arrays = result.calls[0].arrays
    for output, expected in feature.expected(feature.inputs).items():
        actual = arrays[output]
        assert actual.dtype == expected.dtype, output
        np.testing.assert_allclose(
            actual.astype(np.float64), expected.astype(np.float64), rtol=feature.tolerance, atol=feature.tolerance, err_msg=output
        )  # fmt: skip


def test_every_kernel_has_a_row() -> None:
    assert {path.stem for path in KERNELS.glob("*.cu")} == set(FEATURES)


@pytest.mark.parametrize("name", FEATURES)
def test_feature_is_real_cuda(name: str, compiler: Compiler) -> None:
    done = compiler.compile((KERNELS / f"{name}.cu").read_text(), arch="sm_90")

    if isinstance(done, CompileEnvironment):
        pytest.skip(f"needs NVRTC and its headers: {done.message}")
    assert isinstance(done, CompileOk), done


REFUSED = {
    "clusters": (
        (
            '#include <cooperative_groups.h>\nextern "C" __global__ void grid_sync(const int* x, int* p, int* y) {\n'
            "    cooperative_groups::this_cluster();\n}\n"
        ),
        "thread block clusters",
    ),
    "large tiles": (
        (
            '#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\nextern "C" __global__ void grid_sync(const int* x, int* p, int* y) {\n'
            "    cg::tiled_partition<64>(cg::this_thread_block()).sync();\n}\n"
        ),
        "tiles of more than 32 threads",
    ),
    "mma.sync in inline PTX": (
        (
            'extern "C" __global__ void grid_sync(const int* x, int* p, int* y) {\n    unsigned d = 0;\n'
            '    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0}, {%0}, {%0}, {%0};" : "+r"(d));\n}\n'
        ),
        "mma.sync",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_run_is_unsupported_by_name(executor: CpuExecutor, what: str) -> None:
    source, words = REFUSED[what]

    result = run(executor, "grid_sync", source, "plain")

    assert isinstance(result, JobNotRun), result
    assert result.reason == "unsupported"
    assert words in result.message
