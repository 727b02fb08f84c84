__device__ float chop(float v) { return __uint_as_float(__float_as_uint(v) & 0xffffe000u); }

extern "C" __global__ void k(const float* a, const float* b, float* c, int m, int k, int n) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= m || j >= n) return;
  float s = 0.f;
  for (int l = 0; l < k; ++l) s = fmaf(chop(a[(size_t)i * k + l]), chop(b[(size_t)l * n + j]), s);
  c[(size_t)i * n + j] = s;
}
