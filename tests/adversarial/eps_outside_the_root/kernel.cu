extern "C" __global__ void k(const float* x, float* y, int cols, float eps) {
  const float* r = x + (size_t)blockIdx.x * cols;
  float s = 0.f, q = 0.f;
  for (int j = 0; j < cols; ++j) s += r[j];
  const float mean = s / cols;
  for (int j = 0; j < cols; ++j) q += (r[j] - mean) * (r[j] - mean);
  const float scale = 1.f / (sqrtf(q / cols) + eps);
  for (int j = threadIdx.x; j < cols; j += blockDim.x) y[(size_t)blockIdx.x * cols + j] = (r[j] - mean) * scale;
}
