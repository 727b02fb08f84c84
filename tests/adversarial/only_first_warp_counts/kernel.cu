extern "C" __global__ void k(const float* x, float* y, int cols) {
  float s = 0.f;
  for (int j = threadIdx.x; j < cols; j += blockDim.x) s += x[(size_t)blockIdx.x * cols + j];
  for (int d = 16; d > 0; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
  if (threadIdx.x == 0) y[blockIdx.x] = s;
}
