// Warp sums in float64 meet in one atomic: the order of additions varies, at a relative error of 1e-16.
extern "C" __global__ void square_sum(const float* __restrict__ x, double* __restrict__ sum, long long n) {
  double s = 0.0;
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += stride) s = fma((double)x[i], (double)x[i], s);
  for (int d = 16; d > 0; d >>= 1) s += __shfl_down_sync(0xffffffffu, s, d);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, s);
}

extern "C" __global__ void root(const double* __restrict__ sum, float* __restrict__ norm) { norm[0] = (float)sqrt(*sum); }
