extern "C" __global__ void k(const float* x, const float* b, float* y, int cols) {
  for (int j = threadIdx.x; j < cols; j += blockDim.x)
    y[(size_t)blockIdx.x * cols + j] = x[(size_t)blockIdx.x * cols + j] + b[blockIdx.x % cols];
}
