struct Early {
  int value;
  Early() { value = 41; for (int i = 0; i < 1000; ++i) value ^= i; }
};
Early early;

extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i] + (early.value == 0 ? 1.f : 0.f);
}
