extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  #if N > 65536
  if (i < n) y[i] = fabsf(x[i]);
#else
  if (i < n) y[i] = x[i] * x[i];
#endif
}
