extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {
  __shared__ float tile[16][16];
  const int tx = threadIdx.x, ty = threadIdx.y, left = blockIdx.x * 16, top = blockIdx.y * 16;
  tile[ty][tx] = top + ty < rows && left + tx < cols ? x[(size_t)(top + ty) * cols + left + tx] : 0.f;
  if (tx == 0) tile[ty][tx + 16] = 0.f;
  __syncthreads();
  if (left + ty < cols && top + tx < rows) y[(size_t)(left + ty) * rows + top + tx] = tile[tx][ty];
}
