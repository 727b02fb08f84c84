extern "C" __global__ void k(float* x, float* y, int cols) {
  float* r = x + (size_t)blockIdx.x * cols;
  for (int i = 1; i < cols; ++i) {
    const float v = r[i];
    int j = i - 1;
    for (; j >= 0 && r[j] > v; --j) r[j + 1] = r[j];
    r[j + 1] = v;
  }
  for (int j = 0; j < cols; ++j) y[(size_t)blockIdx.x * cols + j] = r[j];
}
