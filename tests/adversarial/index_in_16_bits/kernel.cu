extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  const unsigned short s = (unsigned short)i;
  if (i < n) y[s] = x[s] * x[s];
}
