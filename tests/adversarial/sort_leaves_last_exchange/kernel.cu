extern "C" __global__ void k(const float* x, float* y, int cols) {
  const float* r = x + (size_t)blockIdx.x * cols;
  float* o = y + (size_t)blockIdx.x * cols;
  for (int i = 0; i < cols; ++i) o[i] = r[i];
  for (int p = 0; p < cols - 2; ++p) {
    for (int i = p & 1; i + 1 < cols; i += 2) {
      if (o[i] > o[i + 1]) {
        const float v = o[i];
        o[i] = o[i + 1];
        o[i + 1] = v;
      }
    }
  }
}
