extern "C" __global__ void k(const float* x, float* y, int cols) {
  if (threadIdx.x != 0) return;
  float s = 0.f;
  for (int j = 0; j < cols; ++j) s += x[(size_t)blockIdx.y * cols + j];
  y[blockIdx.y] = s;
}
