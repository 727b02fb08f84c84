// As many blocks as the device holds; each takes the next row from a queue until none is left.
extern "C" __global__ void scale_rows(const float* __restrict__ x, float* __restrict__ y, int* next, int rows, int cols) {
  __shared__ int row;
  __shared__ float parts[4];
  for (;;) {
    if (threadIdx.x == 0) row = atomicAdd(next, 1);
    __syncthreads();
    const int i = row;
    if (i >= rows) return;  // the same for the whole block
    float m = 0.f;
    for (int j = threadIdx.x; j < cols; j += 128) m = fmaxf(m, fabsf(x[(size_t)i * cols + j]));
    for (int d = 16; d > 0; d >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = m;
    __syncthreads();
    m = fmaxf(fmaxf(parts[0], parts[1]), fmaxf(parts[2], parts[3]));
    for (int j = threadIdx.x; j < cols; j += 128) {
      const size_t k = (size_t)i * cols + j;
      y[k] = m > 0.f ? x[k] / m : 0.f;
    }
    __syncthreads();  // row and parts are free again
  }
}
