extern "C" __global__ void k(const float* x, float* y, int cols, float eps) {
  const float* r = x + (size_t)blockIdx.x * cols;
  float s = 0.f, q = 0.f;
  for (int j = 0; j < cols; ++j) {
    s += r[j];
    q += r[j] * r[j];
  }
  const float mean = s / cols, var = q / cols - mean * mean;
  for (int j = threadIdx.x; j < cols; j += blockDim.x) y[(size_t)blockIdx.x * cols + j] = (r[j] - mean) * rsqrtf(var + eps);
}
