// blockDim = (32, 8): a warp a row, threadIdx.y picks the row.
extern "C" __global__ void log_softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  const int row = blockIdx.x * blockDim.y + threadIdx.y;
  if (row >= rows) return;
  const float* r = x + (size_t)row * cols;
  float* o = y + (size_t)row * cols;
  float m = -INFINITY;
  for (int j = threadIdx.x; j < cols; j += 32) m = fmaxf(m, r[j]);
  for (int d = 16; d > 0; d >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
  float s = 0.f;
  for (int j = threadIdx.x; j < cols; j += 32) s += expf(r[j] - m);
  for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(0xffffffffu, s, d);
  const float l = logf(s);
  for (int j = threadIdx.x; j < cols; j += 32) o[j] = (r[j] - m) - l;
}
