// TILE x TILE threads; each tile of a and b is loaded once and used TILE times.
extern "C" __global__ void matmul(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m,
                                  int k, int n) {
  __shared__ float as[TILE][TILE];
  __shared__ float bs[TILE][TILE];
  const int tx = threadIdx.x, ty = threadIdx.y, j = blockIdx.x * TILE + tx;
  // The loop bound is the same for all threads of a block, so every thread meets every barrier.
  for (int top = blockIdx.y * TILE; top < m; top += gridDim.y * TILE) {
    const int i = top + ty;
    float sum = 0.f;
    for (int l0 = 0; l0 < k; l0 += TILE) {
      as[ty][tx] = i < m && l0 + tx < k ? a[(size_t)i * k + l0 + tx] : 0.f;
      bs[ty][tx] = l0 + ty < k && j < n ? b[(size_t)(l0 + ty) * n + j] : 0.f;
      __syncthreads();
#pragma unroll
      for (int l = 0; l < TILE; ++l) sum = fmaf(as[ty][l], bs[l][tx], sum);
      __syncthreads();
    }
    if (i < m && j < n) c[(size_t)i * n + j] = sum;
  }
}
