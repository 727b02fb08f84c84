extern "C" __global__ void k(const unsigned char* x, unsigned char* y, int rows, int cols) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  for (int i = blockIdx.y; i < rows; i += gridDim.y) {
    if (j < cols) y[i * cols + j] = x[i * cols + j] + 1;
  }
}
