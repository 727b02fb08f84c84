extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < rows && j < cols) y[(size_t)j * cols + i] = x[(size_t)i * cols + j];
}
