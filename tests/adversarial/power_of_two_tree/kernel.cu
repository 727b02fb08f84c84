extern "C" __global__ void k(const float* x, float* y, int cols) {
  extern __shared__ float s[];
  s[threadIdx.x] = 0.f;
  for (int j = threadIdx.x; j < cols; j += blockDim.x) s[threadIdx.x] += x[(size_t)blockIdx.x * cols + j];
  __syncthreads();
  for (int d = blockDim.x / 2; d > 0; d >>= 1) {
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
    __syncthreads();
  }
  if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
