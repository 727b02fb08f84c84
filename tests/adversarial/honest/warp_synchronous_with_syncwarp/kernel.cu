extern "C" __global__ void k(const float* x, float* y, int cols) {
  __shared__ float s[64];
  s[threadIdx.x] = 0.f;
  for (int j = threadIdx.x; j < cols; j += 64) s[threadIdx.x] += x[(size_t)blockIdx.x * cols + j];
  __syncthreads();
  if (threadIdx.x < 32) {
    for (int d = 32; d > 0; d >>= 1) {
      const float v = s[threadIdx.x] + (threadIdx.x < d ? s[threadIdx.x + d] : 0.f);
      __syncwarp();
      s[threadIdx.x] = v;
      __syncwarp();
    }
  }
  if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
