// A pair wins by its value, on equal values by the lower index: an order without ties, so any tree gives one answer.
__device__ __forceinline__ void better(float& v, int& i, float v2, int i2) {
  if (v2 > v || (v2 == v && i2 < i)) { v = v2; i = i2; }
}

extern "C" __global__ void argmax_rows(const float* __restrict__ x, int* __restrict__ idx, int cols) {
  __shared__ float vs[BLOCK / 32];
  __shared__ int is[BLOCK / 32];
  const float* r = x + (size_t)blockIdx.x * cols;
  float v = -INFINITY;
  int k = INT_MAX;
  for (int j = threadIdx.x; j < cols; j += BLOCK) better(v, k, r[j], j);
  for (int d = 16; d > 0; d >>= 1) {
    const float v2 = __shfl_down_sync(0xffffffffu, v, d);
    const int k2 = __shfl_down_sync(0xffffffffu, k, d);
    better(v, k, v2, k2);
  }
  if (threadIdx.x % 32 == 0) { vs[threadIdx.x / 32] = v; is[threadIdx.x / 32] = k; }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int w = 1; w < BLOCK / 32; ++w) better(v, k, vs[w], is[w]);
    idx[blockIdx.x] = k;
  }
}
