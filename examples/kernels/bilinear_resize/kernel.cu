// Integer arithmetic finds the source pixel: (2i+1)*h - oh over 2*oh is exact, a float division is not.
__device__ __forceinline__ void source(int i, int n, int on, int& lo, int& hi, float& f) {
  const int64_t num = max((int64_t)0, (2 * (int64_t)i + 1) * n - on), den = 2 * (int64_t)on;
  lo = (int)(num / den);
  f = (float)(num - lo * den) / (float)den;
  hi = min(lo + 1, n - 1);
}

extern "C" __global__ void resize(const float* __restrict__ x, float* __restrict__ y, int h, int w, int oh, int ow) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= oh || j >= ow) return;
  int i0, i1, j0, j1;
  float fi, fj;
  source(i, h, oh, i0, i1, fi);
  source(j, w, ow, j0, j1, fj);
  const float a = x[(size_t)i0 * w + j0], b = x[(size_t)i0 * w + j1];
  const float c = x[(size_t)i1 * w + j0], d = x[(size_t)i1 * w + j1];
  const float top = fmaf(fj, b - a, a), low = fmaf(fj, d - c, c);
  y[(size_t)i * ow + j] = fmaf(fi, low - top, top);
}
