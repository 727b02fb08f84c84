#include <cuda_pipeline.h>

// Double-buffered chunks of 512; copies go 16 bytes a thread, sums read neighbouring elements.
extern "C" __global__ void weighted(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y, int cols) {
  __shared__ __align__(16) float stage[2][512];
  __shared__ float sums[4];
  const float* r = x + (size_t)blockIdx.x * cols;
  const int t = threadIdx.x, chunks = (cols + 511) / 512;
  if (t * 4 < cols) __pipeline_memcpy_async(&stage[0][t * 4], r + t * 4, 16);
  __pipeline_commit();
  float sum = 0.f;
  for (int c = 0; c < chunks; ++c) {
    const int next = (c + 1) * 512 + t * 4;
    if (next < cols) __pipeline_memcpy_async(&stage[(c + 1) & 1][t * 4], r + next, 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    const int left = min(512, cols - c * 512);
    for (int e = t; e < left; e += 128) sum = fmaf(stage[c & 1][e], w[c * 512 + e], sum);
  }
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d);
  if (t % 32 == 0) sums[t / 32] = sum;
  __syncthreads();
  if (t == 0) y[blockIdx.x] = sums[0] + sums[1] + sums[2] + sums[3];
}
