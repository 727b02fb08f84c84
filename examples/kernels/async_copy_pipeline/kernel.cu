#include <cuda_pipeline.h>

// While one chunk of 512 elements is summed, the next one is on its way to shared memory.
extern "C" __global__ void weighted_sum(const float* __restrict__ x, const float* __restrict__ w, float* __restrict__ y,
                                        int cols) {
  __shared__ __align__(16) float stage[2][512];
  __shared__ float sums[4];
  const float* r = x + (size_t)blockIdx.x * cols;
  const int t = threadIdx.x, chunks = (cols + 511) / 512;
  auto fetch = [&](int c) {
    const int j = c * 512 + t * 4;
    if (c < chunks && j < cols) __pipeline_memcpy_async(&stage[c & 1][t * 4], r + j, 16);
    __pipeline_commit();
  };
  fetch(0);
  float sum = 0.f;
  for (int c = 0; c < chunks; ++c) {
    fetch(c + 1);
    __pipeline_wait_prior(1);  // all but the newest batch have arrived; each thread reads only what it copied itself
    const int j = c * 512 + t * 4;
    if (j < cols) {
      const float4 v = *reinterpret_cast<const float4*>(&stage[c & 1][t * 4]);
      const float4 q = *reinterpret_cast<const float4*>(w + j);
      sum = fmaf(v.x, q.x, fmaf(v.y, q.y, fmaf(v.z, q.z, fmaf(v.w, q.w, sum))));
    }
  }
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d);
  if (t % 32 == 0) sums[t / 32] = sum;
  __syncthreads();
  if (t == 0) y[blockIdx.x] = sums[0] + sums[1] + sums[2] + sums[3];
}
