// Element (r, c) of the tile lives in column c ^ r: rows and columns both touch 32 different banks, without padding.
extern "C" __global__ void transpose(const int* __restrict__ x, int* __restrict__ y, int batch, int rows, int cols) {
  __shared__ int tile[32][32];
  const int across = (cols + 31) / 32;
  const int left = blockIdx.x % across * 32, top = blockIdx.x / across * 32, t = threadIdx.x;
  for (int b = blockIdx.z; b < batch; b += gridDim.z) {
    const size_t base = (size_t)b * rows * cols;
#pragma unroll
    for (int k = 0; k < 32; k += 8) {  // four loads on their way for each thread
      const int r = threadIdx.y + k;
      if (top + r < rows && left + t < cols) tile[r][t ^ r] = x[base + (size_t)(top + r) * cols + left + t];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k += 8) {
      const int r = threadIdx.y + k;
      if (left + r < cols && top + t < rows) y[base + (size_t)(left + r) * rows + top + t] = tile[t][r ^ t];
    }
    __syncthreads();
  }
}
