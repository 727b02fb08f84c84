// Half and bfloat16: every math function, comparison and conversion of the headers, scalars and pairs.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
template <class T> struct Kind;
template <> struct Kind<__half> {
    typedef __half2 Pair;
    static __device__ float up(__half v) { return __half2float(v); }
    static __device__ __half down(float v) { return __float2half(v); }
    static __device__ __half2 both(__half a, __half b) { return __halves2half2(a, b); }
    static __device__ float2 wide(__half2 v) { return __half22float2(v); }
};
template <> struct Kind<__nv_bfloat16> {
    typedef __nv_bfloat162 Pair;
    static __device__ float up(__nv_bfloat16 v) { return __bfloat162float(v); }
    static __device__ __nv_bfloat16 down(float v) { return __float2bfloat16(v); }
    static __device__ __nv_bfloat162 both(__nv_bfloat16 a, __nv_bfloat16 b) { return __halves2bfloat162(a, b); }
    static __device__ float2 wide(__nv_bfloat162 v) { return __bfloat1622float2(v); }
};
template <class T>
__device__ void all(const float* x, float* y, float* pairs, int* flags) {
    typedef Kind<T> K;
    int t = threadIdx.x, at = 0;
    T v = K::down(x[t]), a = __habs(v), p = __hadd(a, K::down(0.25f)), one = K::down(1.0f);
    auto put = [&](T r) { y[32 * at++ + t] = K::up(r); };
    put(hsqrt(p)); put(hrsqrt(p)); put(hrcp(p)); put(hexp(v)); put(hexp2(v)); put(hexp10(v)); put(hlog(p)); put(hlog2(p));
    put(hlog10(p)); put(hsin(v)); put(hcos(v)); put(htanh(v)); put(hfloor(v)); put(hceil(v)); put(hrint(v)); put(htrunc(v));
    put(__hadd(v, p)); put(__hsub(v, p)); put(__hmul(v, p)); put(__hdiv(v, p)); put(__hfma(v, p, one)); put(__hneg(v));
    put(__hadd_sat(v, p)); put(__hmul_sat(v, p)); put(__hfma_sat(v, p, one)); put(__hfma_relu(v, p, one)); put(__hmax(v, p));
    put(__hmin(v, p)); put(v + p); put(v - p); put(v * p); put(v / p);
    typename K::Pair q = K::both(v, p), r = K::both(p, v), n;
    int at2 = 0;
    auto pair = [&](typename K::Pair s) { float2 w = K::wide(s); pairs[64 * at2 + 2 * t] = w.x; pairs[64 * at2++ + 2 * t + 1] = w.y; };
    pair(__hadd2(q, r)); pair(__hsub2(q, r)); pair(__hmul2(q, r)); pair(__hfma2(q, r, q)); pair(h2sqrt(__hmul2(q, q)));
    pair(h2exp(q)); pair(__habs2(q)); pair(__hmax2(q, r)); pair(__hmin2(q, r)); pair(__hneg2(q)); pair(__h2div(q, K::both(p, p)));
    n = q; n += r; pair(n); n -= q; n *= r; pair(n); pair(__hgt2(q, r)); pair(__heq2(q, q)); pair(__hfma2_relu(q, r, q));
    flags[t] = __heq(v, p) | __hne(v, p) << 1 | __hlt(v, p) << 2 | __hle(v, p) << 3 | __hgt(v, p) << 4 | __hge(v, p) << 5 |
               __hisnan(v) << 6 | (v < p) << 7 | (v == v) << 8 | __hbeq2(q, q) << 9 | __hbgt2(q, r) << 10 | __hltu(v, p) << 11;
}
extern "C" __global__ void narrow_math(const float* x, float* y, float* pairs, int* flags) {
    if (blockIdx.x == 0) all<__half>(x, y, pairs, flags);
    else all<__nv_bfloat16>(x, y + 32 * 32, pairs + 64 * 16, flags + 32);
}
