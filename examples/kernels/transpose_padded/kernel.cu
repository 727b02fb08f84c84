// A 32 x 32 tile goes through shared memory, so reads and writes both run along rows of their matrix.
extern "C" __global__ void transpose(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  __shared__ float tile[32][33];  // the 33rd column spreads a column over all banks
  const int left = blockIdx.x * 32;
  for (int top = blockIdx.y * 32; top < rows; top += gridDim.y * 32) {
#pragma unroll
    for (int k = 0; k < 32; k += 8) {  // four loads on their way for each thread
      const int r = threadIdx.y + k;
      if (top + r < rows && left + threadIdx.x < cols) tile[r][threadIdx.x] = x[(size_t)(top + r) * cols + left + threadIdx.x];
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < 32; k += 8) {
      const int r = threadIdx.y + k;
      if (left + r < cols && top + threadIdx.x < rows) y[(size_t)(left + r) * rows + top + threadIdx.x] = tile[threadIdx.x][r];
    }
    __syncthreads();
  }
}
