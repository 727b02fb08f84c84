extern "C" __global__ void k(const float* x, int* idx, int cols) {
  const float* r = x + (size_t)blockIdx.x * cols;
  float v = -INFINITY;
  int at = 0;
  for (int j = threadIdx.x; j < cols; j += 32) if (r[j] > v) { v = r[j]; at = j; }
  for (int d = 16; d > 0; d >>= 1) {
    const float w = __shfl_down_sync(0xffffffffu, v, d);
    const int b = __shfl_down_sync(0xffffffffu, at, d);
    if (w > v) { v = w; at = b; }
  }
  if (threadIdx.x == 0) idx[blockIdx.x] = at;
}
