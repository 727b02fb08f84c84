// Whether (v, i) comes before (w, j): larger value, then lower index.
__device__ __forceinline__ bool before(float v, int i, float w, int j) { return v > w || (v == w && i < j); }

// A warp a row. Each round finds the best pair that comes after the one found before; nothing is marked or stored.
extern "C" __global__ void topk(const float* __restrict__ x, float* __restrict__ values, int* __restrict__ indices, int cols,
                                int k) {
  const float* r = x + (size_t)blockIdx.x * cols;
  float last = INFINITY;
  int last_at = -1;
  for (int s = 0; s < k; ++s) {
    float best = -INFINITY;
    int at = INT_MAX;
    for (int j = threadIdx.x; j < cols; j += 32) {
      const float v = r[j];
      if (before(last, last_at, v, j) && before(v, j, best, at)) { best = v; at = j; }
    }
    for (int d = 16; d > 0; d >>= 1) {
      const float v = __shfl_xor_sync(0xffffffffu, best, d);
      const int j = __shfl_xor_sync(0xffffffffu, at, d);
      if (before(v, j, best, at)) { best = v; at = j; }
    }
    if (threadIdx.x == 0) {
      values[(size_t)blockIdx.x * k + s] = best;
      indices[(size_t)blockIdx.x * k + s] = at;
    }
    last = best;
    last_at = at;
  }
}
