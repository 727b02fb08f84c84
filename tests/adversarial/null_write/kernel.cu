extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i];
  float* p = nullptr;
  if (x[0] == x[0] && i == 0) *(volatile float*)p = 1.f;
}
