extern "C" __global__ void k(const float* a, const float* b, float* c, int m, int k, int n) {
  __shared__ float as[16][16], bs[16][16];
  const int tx = threadIdx.x, ty = threadIdx.y, i = blockIdx.y * 16 + ty, j = blockIdx.x * 16 + tx;
  float s = 0.f;
  for (int l0 = 0; l0 < k; l0 += 16) {
    as[ty][tx] = i < m && l0 + tx < k ? a[(size_t)i * k + l0 + tx] : 0.f;
    bs[ty][tx] = l0 + ty < k && j < n ? b[(size_t)(l0 + ty) * n + j] : 0.f;
    __syncthreads();
    for (int l = 0; l < 16; ++l) s = fmaf(as[ty][l], bs[l][tx], s);
  }
  if (i < m && j < n) c[(size_t)i * n + j] = s;
}
