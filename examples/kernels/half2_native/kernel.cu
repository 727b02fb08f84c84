#include <cuda_fp16.h>

extern "C" __global__ void poly(const __half* __restrict__ x, __half* __restrict__ y, long long n) {
  const long long i = (blockIdx.x * (long long)blockDim.x + threadIdx.x) * 2;
  const __half2 c0 = __float2half2_rn(0.5f), c1 = __float2half2_rn(0.25f), c2 = __float2half2_rn(0.125f);
  if (i + 1 < n) {
    const __half2 v = *reinterpret_cast<const __half2*>(x + i);
    *reinterpret_cast<__half2*>(y + i) = __hfma2(v, __hfma2(c2, v, c1), c0);
  } else if (i < n) {
    const __half v = x[i];
    y[i] = __hfma(v, __hfma(__low2half(c2), v, __low2half(c1)), __low2half(c0));
  }
}
