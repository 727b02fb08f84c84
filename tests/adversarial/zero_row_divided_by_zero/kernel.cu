// One block a row, rows in a grid-stride loop.
extern "C" __global__ void scale_rows(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  __shared__ float parts[8];
  __shared__ float largest;
  const int t = threadIdx.x;
  for (int i = blockIdx.x; i < rows; i += gridDim.x) {
    const float* in = x + (size_t)i * cols;
    float* out = y + (size_t)i * cols;
    float m = 0.f;
    for (int j = t; j < cols; j += 256) m = fmaxf(m, fabsf(in[j]));
    for (int d = 16; d > 0; d >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
    if (t % 32 == 0) parts[t / 32] = m;
    __syncthreads();
    if (t == 0) {
      for (int p = 1; p < 8; ++p) m = fmaxf(m, parts[p]);
      largest = m;
    }
    __syncthreads();
    m = largest;
    for (int j = t; j < cols; j += 256) out[j] = in[j] / m;
  }
}
