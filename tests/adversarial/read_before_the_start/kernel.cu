extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float left = x[i - 1], right = i + 1 < n ? x[i + 1] : 0.f;
  y[i] = ((i > 0 ? left : 0.f) + x[i] + right) / 3.f;
}
