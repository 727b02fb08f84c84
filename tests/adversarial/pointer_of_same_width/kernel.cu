extern "C" __global__ void k(const int* x, int* count, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n && x[i] > 0) atomicAdd(count, 1);
}
