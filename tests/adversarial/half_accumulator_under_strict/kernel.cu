#include <cuda_fp16.h>

extern "C" __global__ void k(const float* x, float* y, int cols) {
  if (threadIdx.x != 0) return;
  __half s = __float2half(0.f);
  for (int j = 0; j < cols; ++j) s = __hadd(s, __float2half(x[(size_t)blockIdx.x * cols + j]));
  y[blockIdx.x] = __half2float(s);
}
