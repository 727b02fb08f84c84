extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= cols) return;
  float m = -INFINITY, s = 0.f;
  for (int i = 0; i < rows; ++i) m = fmaxf(m, x[(size_t)i * cols + j]);
  for (int i = 0; i < rows; ++i) s += expf(x[(size_t)i * cols + j] - m);
  for (int i = 0; i < rows; ++i) y[(size_t)i * cols + j] = expf(x[(size_t)i * cols + j] - m) / s;
}
