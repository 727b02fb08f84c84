extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = (x[i] + (i + 1 < n ? x[i + 1] : 0.f) + (i + 2 < n ? x[i + 2] : 0.f)) / 3.f;
}
