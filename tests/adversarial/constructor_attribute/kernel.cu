__attribute__((constructor)) static void before_main() {
  volatile int* p = nullptr;
  *p = 1;
}

extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i];
}
