"""Features of the headers (narrow floats, groups, CUB, tensor cores, asynchronous copies): rows of the table."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
from tests.unit.tools.execute.headers.feature import BF16, RNG, Feature, ints, new, normal, words

from cuda_harness.tools.execute.protocol import Array


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


ROWS = {
    "half_arithmetic": Feature({"x": normal(100, np.float16)}, {"y": new(100, np.float16), "truncated": new(100)}, _half_arithmetic, 128, scalars=(100,)),
    "half2_lanes": Feature({"x": RNG.integers(-8, 8, 64).astype(np.float16)}, {"total": new(1, np.float32), "sums": new(2, np.float16)}, _half2_lanes, accumulates=frozenset({"sums"})),
    "bfloat16_arithmetic": Feature({"x": normal(32)}, {"y": new(32, BF16), "up": new(32, BF16), "down": new(32, BF16), "sum": new(1, BF16)}, _bfloat16_arithmetic, accumulates=frozenset({"sum"})),
    "fp8_round_trip": Feature({"x": normal(32) * np.float32(100)}, {"e4m3": new(32, np.float32), "e5m2": new(32, np.float32)}, _fp8_round_trip),
    "rounding_modes": Feature({"a": normal(32), "b": normal(32)}, {"lower": new(32, np.float32), "upper": new(32, np.float32), "near": new(32), "sat": new(32, np.uint32)}, _rounding_modes),
    "bit_intrinsics": Feature({"x": words(32)}, {"y": new(32, np.uint32)}, _bit_intrinsics),
    "simd_words": Feature({"a": words(32), "b": words(32)}, {"sum": new(32, np.uint32), "mean": new(32, np.uint32), "larger": new(32, np.uint32), "dot": new(32)}, _simd_words),
    "cooperative_tiles": Feature({"x": ints(64)}, {"sums": new(64), "scans": new(64), "votes": new(64, np.uint32), "largest": new(64)}, _cooperative_tiles, 64),
    "coalesced_and_labels": Feature({"x": ints(32, 0, 100)}, {"rank": new(32), "size": new(32)}, _coalesced),
    "grid_sync": Feature({"x": ints(128)}, {"partial": new(128), "y": new(128)}, lambda g: {"partial": 2 * g["x"], "y": 2 * g["x"][::-1]}, 32, 4, cooperative=True),
    "group_memcpy_async": Feature({"x": normal(256)}, {"y": new(256, np.float32)}, _reversed_rows(128, np.float32), 128, 2),
    "cub_block_primitives": Feature({"x": ints(256)}, {"scan": new(256), "total": new(1)}, _cub_block, 64),
    "cub_radix_sort": Feature({"keys": normal(128), "values": ints(128)}, {"sorted_keys": new(128, np.float32), "sorted_values": new(128)}, _cub_sort, 64),
    "cub_warp_primitives": Feature({"x": ints(64)}, {"largest": new(4), "scan": new(64)}, _cub_warp, 64),
    "wmma_half": Feature({"a": normal(256, np.float16), "b": normal(256, np.float16)}, {"c": new(256, np.float32)}, _wmma_half, tolerance=1e-4),
    "wmma_int8": Feature({"a": RNG.integers(-128, 128, 256).astype(np.int8), "b": RNG.integers(-128, 128, 256).astype(np.int8)}, {"c": new(256)}, _wmma_int8),
    "pipeline_primitives": Feature({"x": normal(256)}, {"y": new(256, np.float32)}, _reversed_vectors(2)),
    "block_barrier": Feature({"x": ints(64)}, {"y": new(64)}, lambda g: {"y": (2 * g["x"][::-1])[np.arange(64) ^ 1]}, 64),
    "block_pipeline": Feature({"x": ints(256)}, {"y": new(256)}, _reversed_rows(64, np.int32), 64, scalars=(4,)),
    "atomic_references": Feature({"x": ints(32)}, {"sum": new(1), "largest": np.array([-1000], np.int32), "product": np.array([5], np.int32)}, _atomic_references, accumulates=frozenset({"sum", "largest", "product"})),
    "std_names": Feature({"x": normal(32)}, {"y": new(32, np.float32)}, _std_names, tolerance=1e-5),
    "inline_ptx": Feature({"x": words(32)}, {"y": new(32, np.uint32)}, _inline_ptx),
    "inline_cp_async": Feature({"x": normal(128)}, {"y": new(128, np.float32)}, _reversed_vectors(1)),
}  # fmt: skip
