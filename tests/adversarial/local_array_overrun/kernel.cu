extern "C" __global__ void k(const float* x, float* y, int seq, int d) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= d) return;
  float ring[4];
  float s = 0.f;
  for (int i = 0; i < seq; ++i) {
    ring[i % 5] = x[(size_t)i * d + c];
    s += ring[i % 5];
    y[(size_t)i * d + c] = s / (i + 1);
  }
}
