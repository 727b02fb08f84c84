"""Every 16-bit pattern of half and bfloat16 through conversions and arithmetic, against NumPy and ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest

from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.protocol import Array, Buffer, Job, JobOk, LaunchOp, PointerArg, Program

ALL = np.arange(65536, dtype=np.uint32).astype(np.uint16)
BF16 = ml_dtypes.bfloat16

SOURCE = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <class T> __device__ T of(unsigned short w);
template <> __device__ __half of<__half>(unsigned short w) { return __ushort_as_half(w); }
template <> __device__ __nv_bfloat16 of<__nv_bfloat16>(unsigned short w) { return __ushort_as_bfloat16(w); }
__device__ unsigned short word(__half h) { return __half_as_ushort(h); }
__device__ unsigned short word(__nv_bfloat16 h) { return __bfloat16_as_ushort(h); }
template <class T>
__device__ void all(const unsigned short* a, const unsigned short* b, const float* f, float* wide, unsigned short* narrow,
                    unsigned short* sum, unsigned short* product, unsigned short* fused, unsigned short* least, int* whole) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    T p = of<T>(a[i]), q = of<T>(b[i]);
    wide[i] = p;
    narrow[i] = word(T(f[i]));
    sum[i] = word(p + q);
    product[i] = word(__hmul(p, q));
    fused[i] = word(__hfma(p, q, of<T>(a[65535 - i])));
    least[i] = word(__hmin(p, q));
    whole[i] = static_cast<int>(p);
}
extern "C" __global__ void halves(const unsigned short* a, const unsigned short* b, const float* f, float* wide,
                                   unsigned short* narrow, unsigned short* sum, unsigned short* product,
                                   unsigned short* fused, unsigned short* least, int* whole) {
    all<__half>(a, b, f, wide, narrow, sum, product, fused, least, whole);
}
extern "C" __global__ void bfloats(const unsigned short* a, const unsigned short* b, const float* f, float* wide,
                                   unsigned short* narrow, unsigned short* sum, unsigned short* product,
                                   unsigned short* fused, unsigned short* least, int* whole) {
    all<__nv_bfloat16>(a, b, f, wide, narrow, sum, product, fused, least, whole);
}
"""


def _run(executor: CpuExecutor, kernel: str, inputs: dict[str, Array]) -> dict[str, Array]:
    outputs = {"wide": "float32", "narrow": "uint16", "sum": "uint16", "product": "uint16", "fused": "uint16", "least": "uint16", "whole": "int32"}  # fmt: skip
    buffers = [Buffer(n, a.dtype.name, a.size, "in") for n, a in inputs.items()]
    buffers += [Buffer(n, dtype, ALL.size, "out") for n, dtype in outputs.items()]
    launch = LaunchOp(kernel, (256, 1, 1), (256, 1, 1), 0, tuple(PointerArg(b.name) for b in buffers))
    result = executor.run(Job(SOURCE, Program(tuple(buffers), (launch,)), (inputs,), deadline_s=60))
    assert isinstance(result, JobOk), result
    return result.calls[0].arrays


def _assert_same_bits(actual: Array, expected: Array, dtype: type) -> None:
    """Compare patterns; NaNs are the canonical 0x7fff whatever NumPy keeps of their payload."""
    nan = np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(actual[~nan], expected.view(np.uint16)[~nan], err_msg=dtype.__name__)
    assert (actual[nan] == 0x7FFF).all()


def _fused(a: Array, b: Array, c: Array, dtype: type) -> Array:
    """Return a * b + c rounded once: double, forced to odd by the exact error of the sum, then to `dtype`."""
    a, b, c = (x.astype(np.float64) for x in (a, b, c))
    product = a * b
    total = product + c
    part = total - product
    error = (product - (total - part)) + (c - part)
    bits = total.view(np.int64)
    adjust = np.isfinite(total) & np.isfinite(error) & (error != 0) & (bits & 1 == 0)
    grow = np.where((error > 0) == (total > 0), 1, -1)
    odd = np.where(adjust, bits + grow, bits).view(np.float64)
    if dtype is np.float16:
        return odd.astype(np.float16)
    single = odd.astype(np.float32)
    # float64 -> bfloat16 goes through float32, which must be odd as well.
    wrong = np.isfinite(single) & (single.astype(np.float64) != odd) & (single.view(np.int32) & 1 == 0)
    step = np.where((np.abs(odd) > np.abs(single.astype(np.float64))), 1, -1).astype(np.int32)
    return np.where(wrong, single.view(np.int32) + step, single.view(np.int32)).view(np.float32).astype(BF16)


@pytest.mark.parametrize(("kernel", "dtype"), [("halves", np.float16), ("bfloats", BF16)])
def test_all_patterns_agree_with_numpy(executor: CpuExecutor, kernel: str, dtype: type) -> None:
    rng = np.random.default_rng(3)
    a, b = ALL, rng.permutation(ALL)
    f = rng.integers(0, 2**32, ALL.size, dtype=np.uint64).astype(np.uint32).view(np.float32)
    f[::2] = rng.normal(scale=1e-5, size=f[::2].size).astype(np.float32)
    with np.errstate(all="ignore"):
        p: Array = a.view(dtype)
        q: Array = b.view(dtype)
        wide_p, wide_q = p.astype(np.float32), q.astype(np.float32)

        got = _run(executor, kernel, {"a": a, "b": b, "f": f})

        np.testing.assert_array_equal(got["wide"], wide_p)
        _assert_same_bits(got["narrow"], f.astype(dtype), dtype)
        _assert_same_bits(got["sum"], (wide_p + wide_q).astype(dtype), dtype)
        _assert_same_bits(got["product"], (wide_p * wide_q).astype(dtype), dtype)
        _assert_same_bits(got["fused"], _fused(p, q, a[::-1].copy().view(dtype), dtype), dtype)
        least = np.fmin(wide_p, wide_q)
        np.testing.assert_array_equal(got["least"].view(dtype).astype(np.float32), least)
        whole = np.clip(np.trunc(np.nan_to_num(wide_p.astype(np.float64), nan=0.0)), -(2**31), 2**31 - 1)
        np.testing.assert_array_equal(got["whole"], whole.astype(np.int64).astype(np.int32))
