extern "C" __global__ void small(const float* x, float* total, int n) {
  float s = 0.f;
  for (int i = threadIdx.x; i < n; i += 32) s += x[i];
  for (int d = 16; d > 0; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
  if (threadIdx.x == 0) *total = s;
}

extern "C" __global__ void large(const float* x, float* part, long long n) {
  float s = 0.f;
  for (long long i = blockIdx.x * 32ll + threadIdx.x; i < n; i += gridDim.x * 32ll) s += x[i];
  for (int d = 16; d > 0; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
  if (threadIdx.x == 0) part[blockIdx.x] = s;
}
