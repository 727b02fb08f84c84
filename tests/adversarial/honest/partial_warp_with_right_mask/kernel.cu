// 48 threads: the second warp has 16 lanes, and its mask says so.
extern "C" __global__ void k(const float* x, float* y, int cols) {
  __shared__ float parts[2];
  float s = 0.f;
  for (int j = threadIdx.x; j < cols; j += 48) s += x[(size_t)blockIdx.x * cols + j];
  const unsigned int mask = threadIdx.x < 32 ? 0xffffffffu : 0x0000ffffu;
  for (int d = threadIdx.x < 32 ? 16 : 8; d > 0; d >>= 1) s += __shfl_down_sync(mask, s, d);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = parts[0] + parts[1];
}
