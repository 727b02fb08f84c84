// Count, mean and sum of squared deviations; merging two of them is exact in real arithmetic.
struct Moments { float n, mean, m2; };

__device__ __forceinline__ Moments merge(Moments a, Moments b) {
  const float n = a.n + b.n;
  if (n == 0.f) return a;
  const float delta = b.mean - a.mean, w = b.n / n;
  return {n, a.mean + delta * w, a.m2 + b.m2 + delta * delta * a.n * w};
}

extern "C" __global__ void layer_norm(const float* __restrict__ x, const float* __restrict__ gamma,
                                      const float* __restrict__ beta, float* __restrict__ y, int cols, float eps) {
  __shared__ Moments parts[BLOCK / 32];
  const float* r = x + (size_t)blockIdx.x * cols;
  float* o = y + (size_t)blockIdx.x * cols;
  Moments p = {0.f, 0.f, 0.f};
  for (int j = threadIdx.x; j < cols; j += BLOCK) {  // Welford's update
    p.n += 1.f;
    const float delta = r[j] - p.mean;
    p.mean += delta / p.n;
    p.m2 += delta * (r[j] - p.mean);
  }
  for (int d = 16; d > 0; d >>= 1) {
    p = merge(p, {__shfl_down_sync(0xffffffffu, p.n, d), __shfl_down_sync(0xffffffffu, p.mean, d),
                  __shfl_down_sync(0xffffffffu, p.m2, d)});
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = p;
  __syncthreads();
  p = parts[0];
  for (int w = 1; w < BLOCK / 32; ++w) p = merge(p, parts[w]);
  const float inv = rsqrtf(p.m2 / p.n + eps);
  for (int j = threadIdx.x; j < cols; j += BLOCK) o[j] = (r[j] - p.mean) * inv * gamma[j] + beta[j];
}
