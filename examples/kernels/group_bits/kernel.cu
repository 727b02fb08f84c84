extern "C" __global__ void fold(const int* __restrict__ key, const unsigned int* __restrict__ x, unsigned int* least,
                                unsigned int* most, unsigned int* every, unsigned int* some, unsigned int* parity,
                                long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int k = key[i];
  atomicMin(least + k, x[i]);
  atomicMax(most + k, x[i]);
  atomicAnd(every + k, x[i]);
  atomicOr(some + k, x[i]);
  atomicXor(parity + k, x[i]);
}
