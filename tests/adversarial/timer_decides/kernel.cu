extern "C" __global__ void k(const float* x, float* y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  if (i < n) y[i] = (now >> 10) % 2 ? x[i] : x[i] * x[i];
}
