extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = ((i > 0 ? x[i - 1] : 0.f) + x[i] + x[i + 1] * (i + 1 < n ? 1.f : 0.f)) / 3.f;
}
