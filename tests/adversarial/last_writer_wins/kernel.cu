extern "C" __global__ void k(const int* x, int* y, int* carry, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  int s = 0;
  for (long long j = blockIdx.x * (long long)blockDim.x; j <= i; ++j) s += x[j];
  const int before = atomicExch(carry, s);
  y[i] = s + (blockIdx.x == 0 ? 0 : before);
}
