extern "C" __global__ void k(const float* x, float* y, int seq, int d) {
  const int c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= d) return;
  float s = 0.f;
  for (int i = 0; i < seq; ++i) {
    const float next = i + 1 < seq ? x[(size_t)(i + 1) * d + c] : 0.f;
    s += x[(size_t)i * d + c];
    y[(size_t)i * d + c] = i + 1 < seq ? (s + next) / (i + 2) : s / (i + 1);
  }
}
