extern "C" __global__ void k(const float* x, float* y, int cols) {
  __shared__ float s[512];
  if (threadIdx.x < cols) s[threadIdx.x] = 0.f;
  for (int j = threadIdx.x; j < cols; j += 512) s[threadIdx.x] += x[(size_t)blockIdx.x * cols + j];
  for (int d = 256; d > 0; d >>= 1) {
    __syncthreads();
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
  }
  if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
