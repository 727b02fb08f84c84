extern "C" __global__ void k(const float* a, const float* b, float* c, int m, int k, int n) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= m || j >= n) return;
  float s = 0.f;
#pragma unroll 16
  for (int l = 0; l < k; ++l) s = fmaf(a[(size_t)i * k + l], b[(size_t)l * n + j], s);
  c[(size_t)i * n + j] = s;
}
