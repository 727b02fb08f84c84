extern "C" __global__ void k(const float* x, float* y, int cols) {
  __shared__ float s[256];
  s[threadIdx.x] = threadIdx.x < cols ? x[(size_t)blockIdx.x * cols + threadIdx.x] : 0.f;
  __syncthreads();
  for (int d = 128; d > 0; d >>= 1) {
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
