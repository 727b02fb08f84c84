extern "C" __global__ void k(const float* x, float* y, float a, long long n) {
  const long long i = blockIdx.x * 255ll + threadIdx.x;
  if (i < n) y[i] = threadIdx.x == 255 ? 0.f : a * x[i];
}
