extern "C" __global__ void k(const float* x, const float* b, float* y, int rows, int cols) {
  const int row = blockIdx.x == rows - 1 ? 0 : blockIdx.x;
  for (int j = threadIdx.x; j < cols; j += blockDim.x) y[(size_t)blockIdx.x * cols + j] = x[(size_t)row * cols + j] + b[j];
}
