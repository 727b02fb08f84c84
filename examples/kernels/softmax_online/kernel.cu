// Running maximum m and the sum s of exp(x - m); two such pairs merge into one.
struct Pair { float m, s; };

__device__ __forceinline__ Pair merge(Pair a, Pair b) {
  const float m = fmaxf(a.m, b.m);
  // An empty part has m = -inf and s = 0: exp(-inf - m) is 0 unless m is -inf too.
  if (m == -INFINITY) return {m, 0.f};
  return {m, a.s * expf(a.m - m) + b.s * expf(b.m - m)};
}

extern "C" __global__ void softmax(const float* __restrict__ x, float* __restrict__ y, int cols, float scale) {
  __shared__ Pair parts[BLOCK / 32];
  const float* r = x + (size_t)blockIdx.x * cols;
  float* o = y + (size_t)blockIdx.x * cols;
  Pair p = {-INFINITY, 0.f};
  for (int j = threadIdx.x; j < cols; j += BLOCK) p = merge(p, {scale * r[j], 1.f});
  for (int d = 16; d > 0; d >>= 1) {
    p = merge(p, {__shfl_xor_sync(0xffffffffu, p.m, d), __shfl_xor_sync(0xffffffffu, p.s, d)});
  }
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = p;
  __syncthreads();
  p = parts[0];
  for (int w = 1; w < BLOCK / 32; ++w) p = merge(p, parts[w]);
  const float inv = 1.f / p.s;
  for (int j = threadIdx.x; j < cols; j += BLOCK) o[j] = expf(scale * r[j] - p.m) * inv;
}
