extern "C" __global__ void select(const bool* __restrict__ mask, const float* __restrict__ a, const float* __restrict__ b,
                                  float* __restrict__ y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = mask[i] ? a[i] : b[i];
}
