// Tiles of one matrix run along x, the batch along y (with a loop, as gridDim.y ends at 65535).
extern "C" __global__ void matmul(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c,
                                  int batch, int m, int k, int n) {
  __shared__ float as[16][17], bs[16][17];
  const int tiles = (n + 15) / 16, tx = threadIdx.x, ty = threadIdx.y;
  const int top = blockIdx.x / tiles * 16, left = blockIdx.x % tiles * 16;
  for (int s = blockIdx.y; s < batch; s += gridDim.y) {
    const float* as_ = a + (size_t)s * m * k;
    const float* bs_ = b + (size_t)s * n * k;
    float sum = 0.f;
    for (int l0 = 0; l0 < k; l0 += 16) {
      as[ty][tx] = top + ty < m && l0 + tx < k ? as_[(size_t)(top + ty) * k + l0 + tx] : 0.f;
      bs[ty][tx] = left + ty < n && l0 + tx < k ? bs_[(size_t)(left + ty) * k + l0 + tx] : 0.f;
      __syncthreads();
#pragma unroll
      for (int l = 0; l < 16; ++l) sum = fmaf(as[ty][l], bs[tx][l], sum);
      __syncthreads();
    }
    if (top + ty < m && left + tx < n) c[((size_t)s * m + top + ty) * n + left + tx] = sum;
  }
}
