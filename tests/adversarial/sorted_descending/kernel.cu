extern "C" __global__ void k(const float* x, float* y, int cols) {
  const float* r = x + (size_t)blockIdx.x * cols;
  float* o = y + (size_t)blockIdx.x * cols;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) {
    int rank = 0;
    for (int j = 0; j < cols; ++j) rank += r[j] > r[i] || (r[j] == r[i] && j < i);
    o[rank] = r[i];
  }
}
