#include <cuda_fp16.h>

__device__ float total(float v, float* parts) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
  __syncthreads();
  v = (parts[0] + parts[1]) + (parts[2] + parts[3]);
  __syncthreads();
  return v;
}

// The group is kept in shared memory as float32, so memory is read once for three passes.
extern "C" __global__ void group_norm(const __half* __restrict__ x, __half* __restrict__ y, int size, float eps) {
  extern __shared__ float kept[];
  __shared__ float parts[4];
  const size_t base = (size_t)blockIdx.x * size;
  float s = 0.f;
  for (int j = threadIdx.x; j < size; j += 128) s += kept[j] = __half2float(x[base + j]);
  const float mean = total(s, parts) / size;
  s = 0.f;
  for (int j = threadIdx.x; j < size; j += 128) s = fmaf(kept[j] - mean, kept[j] - mean, s);
  const float inv = rsqrtf(total(s, parts) / size + eps);
  for (int j = threadIdx.x; j < size; j += 128) y[base + j] = __float2half((kept[j] - mean) * inv);
}
