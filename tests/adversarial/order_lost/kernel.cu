extern "C" __global__ void k(const float* x, float* kept, int* count, long long n) {
  const long long i = n - 1 - (blockIdx.x * (long long)blockDim.x + threadIdx.x);
  if (i >= 0 && x[i] > 0.f) kept[atomicAdd(count, 1)] = x[i];
}
