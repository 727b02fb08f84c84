extern "C" __global__ void k(const float* x, float* y, int cols) {
  __shared__ float s[128];
  s[threadIdx.x] = 0.f;
  for (int j = threadIdx.x; j < cols; j += 128) s[threadIdx.x] += x[(size_t)blockIdx.x * cols + j];
  __syncthreads();
  for (int d = 64; d > 0; d >>= 1) {
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
  }
  if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
