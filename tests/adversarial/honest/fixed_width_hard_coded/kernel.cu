extern "C" __global__ void k(const float* x, float* y) {
  float s = x[(size_t)blockIdx.x * 128 + threadIdx.x];
  __shared__ float parts[4];
  for (int d = 16; d > 0; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];
}
