extern "C" __global__ void __launch_bounds__(BLOCK) rms_norm(const float* __restrict__ x, const float* __restrict__ g,
                                                            float* __restrict__ y, int cols, float eps) {
  extern __shared__ float parts[];  // one sum a warp
  const float* r = x + (size_t)blockIdx.x * cols;
  float* o = y + (size_t)blockIdx.x * cols;
  float s = 0.f;
  for (int j = threadIdx.x; j < cols; j += BLOCK) s = fmaf(r[j], r[j], s);
  for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;
  __syncthreads();
  s = 0.f;
  for (int w = 0; w < BLOCK / 32; ++w) s += parts[w];  // every thread, same order, same result
  const float inv = rsqrtf(s / cols + eps);
  for (int j = threadIdx.x; j < cols; j += BLOCK) o[j] = r[j] * inv * g[j];
}
