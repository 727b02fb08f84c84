extern "C" __global__ void k(const float* x, const float* d, float* y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] / d[i];
}
