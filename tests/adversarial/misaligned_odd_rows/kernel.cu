extern "C" __global__ void k(const float* x, float* y, int cols) {
  if (threadIdx.x != 0) return;
  const float* r = x + (size_t)blockIdx.x * cols;
  float s = 0.f;
  int j = 0;
  for (; j + 1 < cols; j += 2) {
    const float2 v = *reinterpret_cast<const float2*>(r + j);
    s += v.x + v.y;
  }
  if (j < cols) s += r[j];
  y[blockIdx.x] = s;
}
