// Pairs of halves: hfma2, comparisons, shuffles, atomics on half2.
#include <cuda_fp16.h>
extern "C" __global__ void half2_lanes(const __half2* x, float* total, __half2* sums) {
    __half2 v = x[threadIdx.x];
    __half2 w = __hfma2(v, __float2half2_rn(0.5f), __halves2half2(__low2half(v), __high2half(v)));
    if (__hbge2(v, __float2half2_rn(0.0f))) atomicAdd(sums, v);
    for (int step = 16; step > 0; step /= 2) w = __hadd2(w, __shfl_xor_sync(0xffffffffu, w, step));
    float2 both = __half22float2(w);
    if (threadIdx.x == 0) *total = both.x + both.y;
}
