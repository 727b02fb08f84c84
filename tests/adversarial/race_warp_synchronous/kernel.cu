extern "C" __global__ void k(const float* x, float* y, int cols) {
  __shared__ float s[64];
  s[threadIdx.x] = 0.f;
  for (int j = threadIdx.x; j < cols; j += 64) s[threadIdx.x] += x[(size_t)blockIdx.x * cols + j];
  __syncthreads();
  if (threadIdx.x < 32) {
    s[threadIdx.x] += s[threadIdx.x + 32];
    s[threadIdx.x] += s[threadIdx.x + 16];
    s[threadIdx.x] += s[threadIdx.x + 8];
    s[threadIdx.x] += s[threadIdx.x + 4];
    s[threadIdx.x] += s[threadIdx.x + 2];
    s[threadIdx.x] += s[threadIdx.x + 1];
  }
  if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
