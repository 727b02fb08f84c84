extern "C" __global__ void k(const float* x, float* mean, float* var, int cols) {
  if (threadIdx.x != 0) return;
  float s = 0.f;
  for (int j = 0; j < cols; ++j) s += x[(size_t)blockIdx.x * cols + j];
  mean[blockIdx.x] = s / cols;
}
