#ifndef UNROLL
#define UNROLL 4
#endif
#if BLOCK >= 256 && UNROLL > 1
#define STEP UNROLL
#else
#define STEP 1
#endif

extern "C" __global__ void k(const float* x, float* y, long long n) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
#pragma unroll
  for (int s = 0; s < STEP; ++s, i += stride) {
    if (i < n) y[i] = x[i] * x[i];
  }
  for (; i < n; i += stride) y[i] = x[i] * x[i];
}
