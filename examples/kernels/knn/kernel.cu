constexpr int MOST = 16;

// A thread a query keeps its best k in a sorted local array; a later point enters behind its equals, so the lower
// index stays in front.
extern "C" __global__ void nearest(const float* __restrict__ query, const float* __restrict__ points,
                                   float* __restrict__ dist, int* __restrict__ idx, int q, int n, int d, int k) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= q) return;
  float best[MOST];
  int at[MOST];
  for (int s = 0; s < MOST; ++s) { best[s] = INFINITY; at[s] = -1; }
  for (int j = 0; j < n; ++j) {
    float sum = 0.f;
    for (int c = 0; c < d; ++c) {
      const float diff = query[(size_t)i * d + c] - points[(size_t)j * d + c];
      sum = fmaf(diff, diff, sum);
    }
    if (sum >= best[k - 1]) continue;
    int s = k - 1;
    for (; s > 0 && best[s - 1] > sum; --s) { best[s] = best[s - 1]; at[s] = at[s - 1]; }
    best[s] = sum;
    at[s] = j;
  }
  for (int s = 0; s < k; ++s) { dist[(size_t)i * k + s] = best[s]; idx[(size_t)i * k + s] = at[s]; }
}
