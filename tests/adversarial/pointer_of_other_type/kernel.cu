extern "C" __global__ void k(const double* x, float* y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = (float)(x[i] * x[i]);
}
