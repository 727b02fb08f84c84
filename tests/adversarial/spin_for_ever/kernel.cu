extern "C" __global__ void k(const float* x, float* y, volatile int* flag, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  while (*flag == 0) {
  }
  if (i < n) y[i] = x[i] * x[i];
}
