extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  const long long begin = clock64();
  if (i < n) y[i] = x[i] * x[i];
  if (clock64() < begin) __nanosleep(1);
}
