extern "C" __global__ void k(float* x, float* y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = x[i] * x[i];
  if (i == n - 1) x[i] = -x[i];
}
