"""Features of the language itself (atomics, warps, groups, memory, numbers, libraries in breadth): rows of the table."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special
from tests.unit.tools.execute.headers.feature import BF16, RNG, Feature, ints, new, normal, words

from cuda_harness.tools.execute.protocol import Array

Given = dict[str, Array]


# ---- atomics ----
def _integer_atomics(start: Array, v: Array, bits: list[int], width: int) -> list[int]:
    """Return what add, exch, min, max, and, or, xor and the three loops leave, three scopes each."""
    wrap = (1 << width) - 1
    first = [int(s) for s in start]
    total, every, odd = sum(int(n) for n in v), 0, 0
    for bit in bits:
        every |= bit
        odd ^= bit
    made = [(s + total) & wrap for s in first[0:3]]
    made += [77] * 3
    made += [min(s, int(v.min())) & wrap for s in first[6:9]] + [max(s, int(v.max())) for s in first[9:12]]
    made += [s & ~every & wrap for s in first[12:15]] + [s | every for s in first[15:18]]
    made += [s ^ odd for s in first[18:21]]
    return made + [(s + (k + 2) * len(v)) & wrap for k, s in enumerate(first[21:24])]


def _counted(start: int, threads: int, limit: int, *, up: bool) -> int:
    value = start
    for _ in range(threads):
        if up:
            value = 0 if value >= limit else value + 1
        else:
            value = limit if value == 0 or value > limit else value - 1
    return value


def _every_atomic(given: Given) -> Given:
    v = given["x"].astype(np.int64)
    i = _integer_atomics(_STARTS["i"], v, [1 << (t & 7) for t in range(64)], 32)
    i += [int(s - v.sum()) & 0xFFFFFFFF for s in _STARTS["i"][24:27]]
    u = _integer_atomics(_STARTS["u"], v + 1000, [1 << (t & 31) for t in range(64)], 32)
    u += [int(s - 3 * 64) & 0xFFFFFFFF for s in _STARTS["u"][24:27].astype(np.int64)]
    u += [_counted(int(s), 64, 9, up=True) for s in _STARTS["u"][27:30]]
    u += [_counted(int(s), 64, 9, up=False) for s in _STARTS["u"][30:33]]
    w = _integer_atomics(
        _STARTS["w"], np.array([int(n + 1000) << 32 for n in v], object), [1 << t for t in range(64)], 64
    )
    s = [min(0, int(v.min())) * 1_000_000_007] * 3 + [max(0, int(v.max())) * 1_000_000_007] * 3
    return {
        "i": np.array(i, np.uint64).astype(np.uint32).view(np.int32),
        "u": np.array(u, np.uint64).astype(np.uint32),
        "w": np.array(w, np.uint64),
        "s": np.array(s, np.int64),
        "f": np.array([v.sum()] * 3 + [2.5] * 3, np.float32),
        "d": np.array([v.sum() * 0.25] * 3, np.float64),
    }  # fmt: skip


_STARTS = {
    "i": np.arange(27, dtype=np.int32) + 4096,
    "u": np.arange(33, dtype=np.uint32) % 7 + 4096,
    "w": np.arange(24, dtype=np.uint64) + 4096,
    "s": new(6, np.int64),
    "f": new(6, np.float32),
    "d": new(3, np.float64),
}


def _atomic_objects(given: Given) -> Given:
    x = given["x"]
    y = [5 + x.sum(), -1, min(x.min(), 0), max(x.max(), 0), 9, 3 * 32, 64, 1]
    return {"y": np.array(y, np.int64).astype(np.int32), "f": np.array([16.0], np.float32), "w": np.array([1 << 40], np.uint64)}  # fmt: skip


# ---- warps and groups ----
def _shuffled(v: Array) -> Array:
    lane = np.arange(32)
    up = np.where(lane % 16 >= 3, lane - 3, lane)
    down = np.where(lane % 8 < 6, lane + 2, lane)
    both = v.reshape(-1, 32)
    return np.concatenate([both[:, s].ravel() for s in ((lane * 5 + 3) & 31, up, down, lane ^ 7)])


def _bits(flags: Array) -> Array:
    packed = (flags.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=-1)
    return np.repeat(packed, 32).astype(np.uint32)


def _same(keys: Array) -> Array:
    rows = keys.reshape(-1, 32)
    return np.array([sum(1 << k for k in range(32) if row[k] == key) for row in rows for key in row], np.uint64).astype(np.uint32)  # fmt: skip


def _every_shuffle(given: Given) -> Given:
    x = given["x"]
    warps = x.reshape(-1, 32)
    flags = (warps > 40).any(axis=1) * 1 + 2 + 4
    unsigned = warps.astype(np.int64).astype(np.uint32)
    folds = [warps.sum(axis=1), warps.min(axis=1), warps.max(axis=1), np.bitwise_and.reduce(warps | 0xFF00, axis=1), np.bitwise_or.reduce(warps, axis=1), np.bitwise_xor.reduce(warps, axis=1)]  # fmt: skip
    quarters = unsigned.reshape(-1, 16)
    halves = [
        np.bitwise_xor.reduce(q) if n % 2 == 0 else q.sum(dtype=np.uint32) for n, q in enumerate(quarters)
    ]
    wide = (x.astype(np.int64).astype(np.uint64)) << np.uint64(33)
    return {
        "i": _shuffled(x),
        "w": _shuffled(wide),
        "f": _shuffled((x * 0.5).astype(np.float32)),
        "d": _shuffled(x * 0.25),
        "votes": np.concatenate([_bits(warps > 0), np.repeat(flags, 32).astype(np.uint32), _same(x & 3), _same(x & 1), np.full(64, 0xFFFFFFFF, np.uint32)]),
        "folds": np.concatenate([np.repeat(f, 32) for f in folds]).astype(np.int32),
        "halves": np.repeat(np.array(halves, np.uint32), 16),
    }  # fmt: skip


def _group_operators(given: Given) -> Given:
    x = given["x"]
    tiles = []
    for size in (1, 2, 4, 8, 16, 32):
        sums = np.repeat(x.reshape(-1, size).sum(axis=1), size)
        tiles.append(sums + np.arange(64) % size * 1000 + size * 100_000)
    warps = x.reshape(-1, 32)
    folds = [warps.min(axis=1), warps.max(axis=1), np.bitwise_and.reduce(warps | 0xFF00, axis=1), np.bitwise_or.reduce(warps, axis=1), np.bitwise_xor.reduce(warps, axis=1), warps.max(axis=1)]  # fmt: skip
    inclusive, xors = np.cumsum(warps, axis=1), np.bitwise_xor.accumulate(warps, axis=1)
    scans = [inclusive, inclusive - warps, np.maximum.accumulate(warps, axis=1), np.concatenate([np.zeros((2, 1), np.int32), xors[:, :-1]], axis=1)]  # fmt: skip
    t = np.arange(64)
    odd = warps & 1 == 1
    ranks = np.where(odd, odd.sum(axis=1, keepdims=True) + 100 * (np.cumsum(odd, axis=1) - odd), 0)
    groups = np.concatenate([t + 6400, t % 32 + 3200, t * 0 + 100, ranks.ravel()])
    return {
        "tiles": np.concatenate(tiles).astype(np.int32),
        "folds": np.concatenate([np.repeat(f, 32) for f in folds]).astype(np.int32),
        "scans": np.concatenate([s.ravel() for s in scans]).astype(np.int32),
        "groups": groups.astype(np.uint32),
        "invoked": np.array([27, 28], np.uint32),
        "floats": np.repeat(warps.sum(axis=1) * 0.5, 32).astype(np.float32),
    }


def _block_axes(given: Given) -> Given:
    blocks = given["x"].reshape(-1, 105)
    counts = (blocks > 0).sum(axis=1) * 4 + 2 * (blocks > -100).all(axis=1) + (blocks > 48).any(axis=1)
    return {"y": blocks[:, ::-1].ravel(), "counts": counts.astype(np.int32)}


def _barrier_kinds(given: Given) -> Given:
    x = given["x"]
    v = x[:64][::-1] + 1
    y = np.concatenate([v[:32] + v[32:], v[32:]])
    return {"y": np.concatenate([y, x[:64] + x[64:]]).astype(np.int32)}


# ---- memory ----
def _memory_spaces(given: Given) -> Given:
    x = given["x"].astype(np.float64)
    t = np.arange(64)
    table = np.array([3, 1, 4, 1, 5, 9, 2, 6])[t & 7]
    weights = np.array([1.0, 2, 4, 8])[t & 3]
    back = 63 - t
    turned = (x[back] + back) + (back + back)
    v = turned + np.where(t & 1, 5.25, 3.5)
    y = v + weights * (t + (t & 3)) + 5 * x[back] + table[back]
    q, p = x.reshape(16, 4)[t // 4], x.reshape(32, 2)[t // 2]
    z = [q[:, 3] + p[:, 0], q[:, 0], q[:, 1], q[:, 2] + 10]
    return {"y": y.astype(np.float32), "z": np.concatenate(z).astype(np.float32)}


def _vector_types(given: Given) -> Given:
    a = given["x"].reshape(32, 4)
    d = np.stack([a[:, 0] + a[:, 1] * a[:, 2], np.full(32, 6)], axis=1)
    c = np.concatenate([a[:, :3].astype(np.uint8), np.full((32, 1), 9, np.uint8)], axis=1)
    w = np.stack([a[:, 0].astype(np.int64) << 33, a[:, 1].astype(np.int64)], axis=1)
    return {
        "y": a[::-1, ::-1].ravel(),
        "d": d.ravel().astype(np.float64),
        "s": a.astype(np.int16).ravel(),
        "c": c.ravel(),
        "w": np.concatenate([w.ravel(), w[:, 0] + 2 * w[:, 1] + a[:, 2] + 2 * a[:, 3]]),
    }


# ---- numbers ----
def _math_library(given: Given) -> Given:
    v: Array = given["x"]
    p, u = v * v + 0.25, v / 8
    exponents = np.frexp(p)[1]
    fractions32, exponents32 = np.frexp(p.astype(np.float32))
    one: list[Array] = [
        np.sqrt(p), np.cbrt(v), np.exp(v), np.exp2(v), np.expm1(v), np.log(p), np.log2(p), np.log10(p), np.log1p(p), np.sin(v),
        np.cos(v), np.tan(u), np.arcsin(u), np.arccos(u), np.arctan(v), np.sinh(v), np.cosh(v), np.tanh(v), np.arcsinh(v),
        np.arccosh(p + 1), np.arctanh(u), special.erf(v), special.erfc(v), special.gammaln(p), special.gamma(p), np.floor(v),
        np.ceil(v), np.trunc(v), np.rint(v), np.copysign(np.floor(np.abs(v) + 0.5), v), np.abs(v), 1 / np.sqrt(p), 10.0**v,
        np.sin(np.pi * v), np.cos(np.pi * v), special.erfinv(u), special.ndtr(v), special.erfcx(v), 1 / np.cbrt(p), exponents - 1.0,
    ]  # fmt: skip
    power, angle, long = p**v, np.arctan2(v, p), np.sqrt(v * v + p * p + u * u)
    single = [power, angle, np.hypot(v, p), np.fmod(v, p), v * p + u, np.minimum(v, u), np.copysign(p, v), 8 * v, long, np.maximum(v - u, 0)]  # fmt: skip
    double = [*single[:5], np.maximum(v, u), single[6], v / 4, *single[8:]]
    single += [fractions32 + exponents32, np.rint(v) + one[29] + exponents - 1]
    double += [np.sin(v) + 2 * np.cos(v), 4 + 8 * (v < 0)]
    fast = [np.exp(v), np.log(p), np.sin(v), np.cos(v), p * p, v / p, 1 / p, np.sqrt(p), 1 / np.sqrt(p), np.tan(u), 10.0**v, np.log2(p), np.log10(p), np.clip(v, 0, 1), v * p + v]  # fmt: skip
    return {
        "f": np.concatenate([*one, *single]).astype(np.float32),
        "d": np.concatenate([*one, *double]),
        "fast": np.concatenate(fast).astype(np.float32),
    }


_LIMITS: dict[type, tuple[float, float]] = {np.int32: (-(2.0**31), 2.0**31 - 1), np.uint32: (0, 2.0**32 - 1), np.int64: (-(2.0**63), 2.0**63), np.uint64: (0, 2.0**64)}  # fmt: skip


def _whole(v: Array, rounding: Callable[[Array], Array], dtype: type) -> Array:
    low, high = _LIMITS[dtype]
    made = [
        min(max(int(n), int(low)), int(high) - (dtype in {np.int64, np.uint64}))
        for n in rounding(v.astype(np.float64))
    ]
    return np.array(made, dtype)


def _nearest(v: Array, *, toward: float | None) -> Array:
    """Return float32 values of exact doubles, rounded toward an infinity, toward zero (0.0) or to nearest (None)."""
    near = v.astype(np.float32)
    if toward is None:
        return near
    exact = near.astype(np.float64)
    if toward == 0.0:
        return np.where(np.abs(exact) > np.abs(v), np.nextafter(near, np.float32(0)), near)
    wrong = exact < v if toward > 0 else exact > v
    return np.where(wrong, np.nextafter(near, np.float32(toward)), near)


def _cut_to_float(v: Array) -> Array:
    """Return 64-bit integers as float32, toward zero."""
    near = v.astype(np.float32)
    beyond = [abs(int(n)) > abs(int(exact)) for n, exact in zip(near, v, strict=True)]
    return np.where(beyond, np.nextafter(near, np.float32(0)), near)


def _conversions(given: Given) -> Given:
    v: Array = given["x"]
    g = v.astype(np.float32)
    ways: list[Any] = [np.rint, np.trunc, np.ceil, np.floor]
    i = [_whole(n, way, np.int32) for n in (g, v) for way in ways]
    u = [_whole(g, way, np.uint32) for way in ways] + [_whole(v, way, np.uint32) for way in ways[:2]]
    long = [_whole(g, np.rint, np.int64), _whole(g, np.trunc, np.int64), _whole(v, np.ceil, np.int64), _whole(v, np.floor, np.int64)]  # fmt: skip
    wide = [_whole(g, np.rint, np.uint64), _whole(v, np.trunc, np.uint64)]
    cut = i[1].astype(np.float64)
    f = [_nearest(cut, toward=None), _nearest(cut, toward=np.inf), _nearest(u[1].astype(np.float64), toward=-np.inf), _cut_to_float(long[1])]  # fmt: skip
    f += [_nearest(v, toward=w) for w in (None, np.inf, -np.inf, 0.0)] + [
        (g.view(np.int32) ^ 1).view(np.float32)
    ]
    d = [i[0].astype(np.float64), long[0].astype(np.float64), v, v]
    return {
        "i": np.concatenate(i), "u": np.concatenate(u), "l": np.concatenate(long), "w": np.concatenate(wide),
        "f": np.concatenate(f), "d": np.concatenate(d),
    }  # fmt: skip


def _saturated(x: Array, dtype: type, source_bits: int = 32) -> Array:
    """Return what `cvt.rzi` to `dtype` makes of x (PTX ISA): clamped; NaN is 0, or the top bit where 64 bits take part."""
    info = np.iinfo(dtype)
    # Object integers, since neither bound of 64 bits is a double; a value beyond is clamped before it is cut.
    whole = [
        int(np.trunc(v)) if np.isfinite(v) else int(info.max) + 1 if v > 0 else int(info.min) - 1
        for v in x.astype(np.float64)
    ]
    nan = 0 if source_bits < 64 and info.bits < 64 else -(2**63) if info.bits == 64 else info.min or 1 << (info.bits - 1)  # fmt: skip
    made = [nan if np.isnan(v) else min(max(w, int(info.min)), int(info.max)) for v, w in zip(x, whole, strict=True)]  # fmt: skip
    return np.array([w - 2**64 if w >= 2**63 else w for w in made], np.int64)


def _float_to_integer(given: Given) -> Given:
    x: Array = given["x"]
    double, twice = x.astype(np.float64), x * np.float32(2)
    with np.errstate(over="ignore"):
        half = x.astype(np.float16)
    i, u, t = _saturated(x, np.int32), _saturated(x, np.uint32), np.zeros(32, np.int64)
    rows = [
        i, u, i.astype(np.int8), u.astype(np.uint8), i.astype(np.int16), u.astype(np.uint16), _saturated(x, np.int64),
        _saturated(x, np.uint64), _saturated(double, np.int32, 64), _saturated(double, np.uint32, 64), _saturated(double, np.int64, 64),
        _saturated(twice, np.int32), u, i.astype(np.int8), _saturated(twice, np.uint32), _saturated(twice, np.int32).astype(np.int16),
        i, _saturated(double * 3, np.int32, 64), i, i, u.astype(np.uint8), u.astype(np.uint16), _saturated(x * np.float32(3), np.uint32),
        i, u.astype(np.uint8), i, _saturated(twice, np.int32), np.where(x > 0, i, 0), _saturated(twice, np.int32),
        _saturated(half, np.int32), _saturated(half, np.int8), _saturated(x.astype(BF16), np.int64), t + 14,
        (x > 2).astype(np.int64) + np.where(np.isnan(x), 0, x != 0),
    ]  # fmt: skip
    return {"y": np.concatenate([r.astype(np.int64) for r in rows])}


def _nv_atomics(given: Given) -> Given:
    x: Array = given["x"]
    return {
        "y": np.array([x.sum(), max(x.max(), 0), min(x.min(), 0), -1, 9, 64], np.int32),
        "f": np.array([16], np.float32),
        "w": np.array([32, 496, 7], np.uint64),
    }


def _group_updates(given: Given) -> Given:
    x: Array = given["x"]
    total, after = x.sum(), np.cumsum(x)
    return {
        "y": np.concatenate([after - x, total + after, np.ones(32)]).astype(np.int32),
        "totals": np.array([total, x.max(), 2 * total], np.int32),
    }


def _small_primitives(given: Given) -> Given:
    x: Array = given["x"]
    halves = [np.where(np.arange(128) < 100, part, -1).reshape(32, 4).T.ravel() for part in x[:256].reshape(2, 128)]  # fmt: skip
    sums = 2 * (2 * x[:64][::-1] + 1) + np.maximum(x[:64], 3)
    return {"y": np.concatenate([*halves, sums]).astype(np.int32)}


_EDGES = [
    0.0, -0.5, -1.0, 3.7, 300.5, -300.5, 7e4, -7e4, 2147483520.0, 2147483648.0, -2147483648.0, -3e9, 4294967040.0, 4294967296.0,
    5e9, 9.2e18, 9.3e18, -9.3e18, 1.8e19, 1.9e19, np.inf, -np.inf, np.nan, 1e10, 127.9, 128.0, -128.9, -129.0, 255.5, 256.0, 65535.9, 1e-3,
]  # fmt: skip


def _narrow(x: Array, dtype: type) -> tuple[list[Array], list[Array], Array]:
    def cut(a: Array) -> Array:
        return a.astype(np.float32).astype(dtype).astype(np.float64)

    v: Array = cut(x)
    p = cut(np.abs(v) + 0.25)
    sat = [np.clip(a, 0, 1) for a in (v + p, v * p, v * p + 1)]
    singles = [
        np.sqrt(p), 1 / np.sqrt(p), 1 / p, np.exp(v), np.exp2(v), 10.0**v, np.log(p), np.log2(p), np.log10(p), np.sin(v), np.cos(v),
        np.tanh(v), np.floor(v), np.ceil(v), np.rint(v), np.trunc(v), v + p, v - p, v * p, v / p, v * p + 1, -v, *sat,
        np.maximum(v * p + 1, 0), np.maximum(v, p), np.minimum(v, p), v + p, v - p, v * p, v / p,
    ]  # fmt: skip
    q, r = np.stack([v, p], axis=1), np.stack([p, v], axis=1)
    total = cut(q + r)
    pairs = [
        q + r, q - r, q * r, q * r + q, np.abs(q), np.exp(q), np.abs(q), np.maximum(q, r), np.minimum(q, r), -q,
        q / np.stack([p, p], axis=1), total, cut(total - q) * r, (q > r) * 1.0, np.ones_like(q), np.maximum(q * r + q, 0),
    ]  # fmt: skip
    flags = (v == p) | (v != p) << 1 | (v < p) << 2 | (v <= p) << 3 | (v > p) << 4 | (v >= p) << 5 | (v < p) << 7 | 1 << 8 | 1 << 9 | (v < p) << 11  # fmt: skip
    return singles, [a.ravel() for a in pairs], flags


def _narrow_math(given: Given) -> Given:
    half, brain = _narrow(given["x"], np.float16), _narrow(given["x"], BF16)
    return {
        "y": np.concatenate([*half[0], *brain[0]]).astype(np.float32),
        "pairs": np.concatenate([*half[1], *brain[1]]).astype(np.float32),
        "flags": np.concatenate([half[2], brain[2]]).astype(np.int32),
    }


def _toward(x: Array, dtype: type, way: str) -> Array:
    """Return x in a 16-bit type, rounded `up`, `down`, to `zero`, as float32."""
    near = x.astype(dtype)
    exact, wide = x.astype(np.float64), near.astype(np.float64)
    word = near.view(np.int16).astype(np.int32)
    away = np.where(wide >= 0, 1, -1)
    if way == "zero":
        word = np.where(np.abs(wide) > np.abs(exact), word - 1, word)
    elif way == "up":
        word = np.where(wide < exact, word + away, word)
    else:
        word = np.where(wide > exact, word - away, word)
    return word.astype(np.int16).view(dtype).astype(np.float32)


def _narrow_conversions(given: Given) -> Given:
    v, u, x = given["h"].astype(np.float64), given["b"].astype(np.float64), given["x"]
    t = np.arange(32)
    i = [np.rint(v), np.trunc(v), np.ceil(v), np.floor(v), np.trunc(np.abs(v)), np.rint(v), np.floor(v), np.rint(u), np.floor(u), np.ceil(np.abs(u)), np.rint(np.abs(v)), np.trunc(np.abs(v))]  # fmt: skip
    counted: Array = (t * 1025).astype(np.float64)
    f = [
        counted.astype(np.float16),
        _toward(x, np.float16, "zero"),
        _toward(x, np.float16, "up"),
        _toward(x, np.float16, "down"),
    ]
    f += [
        _toward(counted, np.float16, "zero"),
        counted.astype(BF16),
        _toward(x, BF16, "zero"),
        x.astype(np.float16),
    ]
    f += [v[t ^ 1], np.concatenate([u[1:], u[-1:]]), (v + u)]
    return {"i": np.concatenate(i).astype(np.int32), "f": np.concatenate([a.astype(np.float32) for a in f])}


def _simd_video(given: Given) -> Given:
    a, b = given["a"], given["b"]

    def lanes(word: Array, kind: type) -> Array:
        return word.view(kind).reshape(32, -1).astype(np.int64)

    def packed(values: Array, kind: type) -> Array:
        return values.astype(np.int64).astype(kind).view(np.uint32).ravel()

    def family(kind: type, unsigned: type) -> tuple[Array, Array, Array, Array, int, int, int]:
        top = int(np.iinfo(kind).max)
        return (
            lanes(a, kind),
            lanes(b, kind),
            lanes(a, unsigned),
            lanes(b, unsigned),
            -top - 1,
            top,
            2 * top + 1,
        )

    s, r, u, v, low, high, most = family(np.int8, np.uint8)
    mask = np.uint8(255)
    bytes_ = [
        packed(x, np.uint8)
        for x in (
            u + v, u - v, np.clip(s + r, low, high), np.clip(s - r, low, high), np.minimum(u + v, most), np.maximum(u - v, 0),
            (s + r + (s + r >= 0)) >> 1, (u + v + 1) >> 1, (u + v) >> 1, np.minimum(s, r), np.minimum(u, v), np.maximum(s, r), np.maximum(u, v),
            np.abs(s), np.minimum(np.abs(s), high), -s, np.minimum(-s, high), np.abs(s - r), np.abs(u - v),
        )
    ]  # fmt: skip
    bytes_ += [np.abs(u - v).sum(axis=1).astype(np.uint32), np.abs(s - r).sum(axis=1).astype(np.uint32)]
    bytes_ += [packed(x * mask, np.uint8) for x in (u == v, s > r, u <= v)]
    bytes_ += [np.full(32, 0x01010101, np.uint32), packed(u > v, np.uint8)]
    s, r, u, v, low, high, most = family(np.int16, np.uint16)
    halves = [packed(x, np.uint16) for x in (u + v, u - v, np.clip(s + r, low, high), np.maximum(u - v, 0), (u + v + 1) >> 1, np.minimum(s, r), np.maximum(u, v), np.abs(s), np.abs(u - v))]  # fmt: skip
    halves += [
        np.abs(u - v).sum(axis=1).astype(np.uint32),
        packed((u < v) * 65535, np.uint16),
        packed(s >= r, np.uint16),
    ]
    return {"bytes": np.concatenate(bytes_), "halves": np.concatenate(halves), "dots": _dots(a, b)}


def _signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _dots(a: Array, b: Array) -> Array:
    rows: list[list[int]] = []
    for t, (p, q) in enumerate(zip((int(n) for n in a), (int(n) for n in b), strict=True)):
        sp, sq = _signed(p), _signed(q)
        byte = [(p >> k & 255, q >> k & 255) for k in (0, 8, 16, 24)]
        s16 = [_signed(p >> k & 65535, 16) for k in (0, 16)]
        ones = [k for k in range(32) if p >> k & 1]
        rows.append([
            sum(_signed(x, 8) * _signed(y, 8) for x, y in byte) + 5, sum(x * y for x, y in byte) + 5,
            s16[0] * _signed(byte[0][1], 8) + s16[1] * _signed(byte[1][1], 8) + 5, (p & 65535) * byte[2][1] + (p >> 16) * byte[3][1] + 5,
            abs(sp - sq) + 3, abs(p - q) + 3, (sp * sq) >> 32, _signed(p & 0xFFFFFF, 24) * _signed(q & 0xFFFFFF, 24), (p + q) >> 1,
            (sp + sq + 1) >> 1, ((sp << 7) & -(sp << 7)).bit_length(), ((p << 20) | q).bit_count(), 64 - p.bit_length(),
            int(f"{p:032b}"[::-1], 2), (p & 0xFFFFFF) * (q & 0xFFFFFF), p * q, ((q << 32 | p) >> (t & 31)), p,
            ones[2] if len(ones) > 2 else -1,
        ])  # fmt: skip
    return np.array([_signed(n) for column in zip(*rows, strict=True) for n in column], np.int32)


# ---- libraries ----
def _cub_block_more(given: Given) -> Given:
    x = given["x"]
    v = np.concatenate([x[:100], np.full(28, -1, np.int32)]).astype(np.int64)
    sums = np.cumsum(v)
    largest = np.maximum.accumulate(np.concatenate([[-1000], v[:-1]]))
    heads = np.concatenate([[1], v[1:] != v[:-1]])
    y = np.concatenate([sums, largest, sums - v + 100, heads])
    bins = np.bincount(v & 15, minlength=16)
    totals = [v.max(), v[:20:2].sum(), v.sum()]
    return {"y": y.astype(np.int32), "bins": bins.astype(np.int32), "totals": np.array(totals, np.int32)}


def _cub_sorts(given: Given) -> Given:
    x, d, c = given["x"], given["d"], given["c"]
    order = np.argsort(c, kind="stable")
    return {
        "falling": np.sort(x)[::-1],
        "striped": np.sort(x),
        "partial": x[np.argsort(x & 15, kind="stable")],
        "doubles": np.sort(d),
        "bytes": c[order],
        "values": order.astype(np.int32),
        "merged": x[np.argsort(-(x.astype(np.int64) ** 2), kind="stable")],
    }


def _cub_block_axes(given: Given) -> Given:
    x = given["x"]
    warps = x.reshape(2, 32)
    before = np.maximum.accumulate(np.concatenate([np.full((2, 1), 7), warps[:, :-1]], axis=1), axis=1)
    most = np.zeros((2, 32), np.int64)
    most[:, 0] = warps.max(axis=1)
    heads = np.zeros(64, np.int64)
    for t in range(0, 64, 5):
        end = min(t + 5, (t // 32 + 1) * 32)
        heads[t] = x[t:end].sum()
    return {
        "sums": np.array([x.sum()], np.int32),
        "scans": np.concatenate([np.cumsum(x), before.ravel()]).astype(np.int32),
        "warps": np.concatenate([most.ravel(), heads, np.repeat(warps[:, 3], 32)]).astype(np.int32),
    }


def _wmma_shapes(given: Given) -> Given:
    def product(name: str, m: int, n: int, k: int) -> Array:
        a = given[name].astype(np.float64).ravel()
        return (a[: m * k].reshape(m, k) @ a[: k * n].reshape(k, n)).ravel()

    return {
        "wide": product("h", 8, 32, 16).astype(np.float32), "tall": product("h", 32, 8, 16).astype(np.float32),
        "narrow": product("h", 16, 16, 16).astype(np.float16), "brain": product("b", 16, 16, 16).astype(np.float32),
        "tf": product("f", 16, 16, 8).astype(np.float32), "twice": product("d", 8, 8, 4), "bytes": product("u", 16, 16, 16).astype(np.int32),
    }  # fmt: skip


def _std_more(given: Given) -> Given:
    x, t = given["x"], np.arange(32)
    halves = np.where(x % 2 == 0, x // 2, -1)
    y = [halves + 2 * x, x + t + np.maximum(x, 3) - np.minimum(x, -3), x + 8, 1 + 10 * (t & 1)]
    return {"y": np.concatenate(y).astype(np.int32), "f": (np.sqrt(np.abs(x)) + 255).astype(np.float32)}


def _ptx_table(given: Given) -> Given:
    rows: list[list[int]] = []
    x = [int(n) for n in given["x"]]
    ballot = sum(1 << t for t, n in enumerate(x) if n > 0x80000000)
    total = sum(n & 255 for n in x)
    for t, v in enumerate(x):
        field = v >> 4 & 255
        inserted = v & ~0xFF00 | field << 8
        shifted = (((t << 32 | v) << (t & 31)) >> 32) & 0xFFFFFFFF
        rows.append(
            [
                32 + t,
                (2 * v & 0xFFFFFFFF) ^ (v >> 31),
                field + inserted,
                ((3 * v + t) & 0xFFFFFFFF) ^ (v * v >> 32) ^ shifted,
                ballot,
                x[t ^ 1] + total,
            ]
        )
    y = [n & 0xFFFFFFFF for column in zip(*rows, strict=True) for n in column]
    y += [n for t, v in enumerate(x) for n in (v, t)]
    y += [(x[2 * (t // 2)] - x[2 * (t // 2) + 1]) & 0xFFFFFFFF for t in range(32)]
    r = np.array([v >> 12 for v in x], np.float64) * 0.5 + 1
    small = np.array([v & 7 for v in x])
    return {
        "y": np.array(y, np.uint64).astype(np.uint32),
        "w": np.array([v * v for v in x] + [t << 32 | v for t, v in enumerate(x)], np.uint64),
        "f": np.concatenate([r, 1 / r, 2.0**small, np.maximum(r, 1000)]).astype(np.float32),
        "counters": np.array([32, max(v & 0xFFFF for v in x)], np.uint32),
    }  # fmt: skip


ROWS = {
    "every_atomic": Feature({"x": ints(64)}, _STARTS, _every_atomic, 64, accumulates=frozenset(_STARTS)),
    "atomic_objects": Feature({"x": ints(32)}, {"y": new(8), "f": new(1, np.float32), "w": new(1, np.uint64)}, _atomic_objects, accumulates=frozenset({"y", "f", "w"})),
    "every_shuffle": Feature({"x": ints(64)}, {"i": new(256), "w": new(256, np.uint64), "f": new(256, np.float32), "d": new(256, np.float64), "votes": new(320, np.uint32), "folds": new(384), "halves": new(64, np.uint32)}, _every_shuffle, 64),
    "group_operators": Feature({"x": ints(64)}, {"tiles": new(384), "folds": new(384), "scans": new(256), "groups": new(256, np.uint32), "invoked": new(2, np.uint32), "floats": new(64, np.float32)}, _group_operators, 64),
    "block_axes": Feature({"x": ints(105 * 8)}, {"y": new(105 * 8), "counts": new(8)}, _block_axes, (3, 5, 7), (2, 2, 2)),
    "barrier_kinds": Feature({"x": ints(128)}, {"y": new(128)}, _barrier_kinds, 64),
    "memory_spaces": Feature({"x": normal(64)}, {"y": new(64, np.float32), "z": new(256, np.float32)}, _memory_spaces, 64, scalars=(64,), tolerance=1e-4, shared_bytes=512),
    "vector_types": Feature({"x": ints(128, 0, 100)}, {"y": new(128), "d": new(64, np.float64), "s": new(128, np.int16), "c": new(128, np.uint8), "w": new(96, np.int64)}, _vector_types),
    "math_library": Feature({"x": RNG.uniform(-4, 4, 32)}, {"f": new(52 * 32, np.float32), "d": new(52 * 32, np.float64), "fast": new(15 * 32, np.float32)}, _math_library, tolerance=1e-4),
    "conversions": Feature({"x": np.concatenate([RNG.normal(size=8) * 100, RNG.normal(size=8) * 1e10, RNG.normal(size=8) * 1e20, np.arange(8) - 3.5])}, {"i": new(256), "u": new(192, np.uint32), "l": new(128, np.int64), "w": new(64, np.uint64), "f": new(288, np.float32), "d": new(128, np.float64)}, _conversions),
    "float_to_integer": Feature({"x": np.array(_EDGES, np.float32)}, {"y": new(34 * 32, np.int64)}, _float_to_integer),
    "nv_atomics": Feature({"x": ints(32)}, {"y": new(6), "f": new(1, np.float32), "w": new(3, np.uint64)}, _nv_atomics),
    "group_updates": Feature({"x": ints(32)}, {"y": new(96), "totals": new(3)}, _group_updates),
    "small_primitives": Feature({"x": ints(256)}, {"y": new(320)}, _small_primitives, 64),
    "narrow_math": Feature({"x": RNG.uniform(-2, 2, 32).astype(np.float32)}, {"y": new(64 * 32, np.float32), "pairs": new(32 * 64, np.float32), "flags": new(64)}, _narrow_math, grid=2, tolerance=1.6e-2),
    "narrow_conversions": Feature({"x": normal(32) * np.float32(30), "h": (normal(32) * 50).astype(np.float16), "b": (normal(32) * 50).astype(BF16)}, {"i": new(384), "f": new(352, np.float32)}, _narrow_conversions),
    "simd_video": Feature({"a": words(32), "b": words(32)}, {"bytes": new(26 * 32, np.uint32), "halves": new(12 * 32, np.uint32), "dots": new(19 * 32)}, _simd_video),
    "cub_block_more": Feature({"x": ints(128, 0, 6)}, {"y": new(512), "bins": new(16), "totals": new(3)}, _cub_block_more, 64, scalars=(100,)),
    "cub_sorts": Feature({"x": ints(128), "d": RNG.normal(size=128), "c": RNG.integers(0, 256, 128).astype(np.uint8)}, {"falling": new(128), "striped": new(128), "partial": new(128), "doubles": new(128, np.float64), "bytes": new(128, np.uint8), "values": new(128), "merged": new(128)}, _cub_sorts, 64),
    "cub_block_axes": Feature({"x": ints(64)}, {"sums": new(1), "scans": new(128), "warps": new(192)}, _cub_block_axes, (16, 4, 1)),
    "wmma_shapes": Feature({"h": normal(512, np.float16), "b": normal(256).astype(BF16), "f": RNG.integers(-8, 8, 128).astype(np.float32), "d": RNG.normal(size=32), "u": RNG.integers(0, 256, 256).astype(np.uint8)}, {"wide": new(256, np.float32), "tall": new(256, np.float32), "narrow": new(256, np.float16), "brain": new(256, np.float32), "tf": new(256, np.float32), "twice": new(64, np.float64), "bytes": new(256)}, _wmma_shapes, tolerance=2e-3),
    "std_more": Feature({"x": ints(32)}, {"y": new(128), "f": new(32, np.float32)}, _std_more, tolerance=1e-6),
    "ptx_table": Feature({"x": words(32)}, {"y": new(288, np.uint32), "w": new(64, np.uint64), "f": new(128, np.float32), "counters": new(2, np.uint32)}, _ptx_table, tolerance=1e-6, accumulates=frozenset({"counters"})),
    "print_assert": Feature({"x": ints(32)}, {"y": new(32)}, lambda g: {"y": g["x"] + 2}),
}  # fmt: skip
