extern "C" __global__ void max_pool(const float* __restrict__ x, float* __restrict__ y, int* __restrict__ at, int h, int w,
                                    int ho, int wo) {
  const int across = (wo + 15) / 16;
  const int oj = blockIdx.x % across * 16 + threadIdx.x, oi = blockIdx.x / across * 16 + threadIdx.y;
  if (oi >= ho || oj >= wo) return;
  const size_t plane = (size_t)blockIdx.z * gridDim.y + blockIdx.y;
  const float* in = x + plane * h * w;
  float best = -INFINITY;
  int where = -1;
  for (int i = max(0, 2 * oi - 1); i <= min(h - 1, 2 * oi + 1); ++i) {
    for (int j = max(0, 2 * oj - 1); j <= min(w - 1, 2 * oj + 1); ++j) {
      const float v = in[(size_t)i * w + j];
      if (v > best || where < 0) { best = v; where = i * w + j; }
    }
  }
  const size_t k = (plane * ho + oi) * wo + oj;
  y[k] = best;
  at[k] = where;
}
