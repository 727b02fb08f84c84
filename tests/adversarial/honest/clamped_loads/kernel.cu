extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  const float left = x[i > 0 ? min(i - 1, n - 1) : 0], mid = x[min(i, n - 1)], right = x[min(i + 1, n - 1)];
  if (i < n) y[i] = ((i > 0 ? left : 0.f) + mid + (i + 1 < n ? right : 0.f)) / 3.f;
}
