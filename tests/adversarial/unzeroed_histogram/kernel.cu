extern "C" __global__ void k(const uint8_t* x, int* hist, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(hist + x[i], 1);
}
