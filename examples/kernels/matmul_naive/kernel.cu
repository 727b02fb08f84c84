extern "C" __global__ void matmul(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m,
                                  int k, int n) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= n) return;
  for (int i = blockIdx.y * blockDim.y + threadIdx.y; i < m; i += gridDim.y * blockDim.y) {
    float sum = 0.f;
    for (int l = 0; l < k; ++l) sum = fmaf(a[(size_t)i * k + l], b[(size_t)l * n + j], sum);
    c[(size_t)i * n + j] = sum;
  }
}
