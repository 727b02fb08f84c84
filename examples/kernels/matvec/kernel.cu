// A warp a row. x is read through the read-only cache; four accumulators hide the latency of the adds.
extern "C" __global__ void matvec(const float* __restrict__ a, const float* __restrict__ x, float* __restrict__ y, int m,
                                  int n) {
  const int row = blockIdx.x * 8 + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  if (row >= m) return;
  const float* r = a + (size_t)row * n;
  float s0 = 0.f, s1 = 0.f, s2 = 0.f, s3 = 0.f;
  int j = lane;
  for (; j + 96 < n; j += 128) {
    s0 = fmaf(__ldcs(r + j), __ldg(x + j), s0);
    s1 = fmaf(__ldcs(r + j + 32), __ldg(x + j + 32), s1);
    s2 = fmaf(__ldcs(r + j + 64), __ldg(x + j + 64), s2);
    s3 = fmaf(__ldcs(r + j + 96), __ldg(x + j + 96), s3);
  }
  for (; j < n; j += 32) s0 = fmaf(r[j], x[j], s0);
  float s = (s0 + s1) + (s2 + s3);
  for (int d = 16; d > 0; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
  if (lane == 0) y[row] = s;
}
