extern "C" __global__ void bits(const unsigned int* __restrict__ x, int* __restrict__ ones, int* __restrict__ zeros,
                                int* __restrict__ lowest, unsigned int* __restrict__ mirrored,
                                unsigned int* __restrict__ swapped, unsigned int* __restrict__ turned, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned int v = x[i];
  ones[i] = __popc(v);
  zeros[i] = __clz((int)v);
  lowest[i] = __ffs((int)v);
  mirrored[i] = __brev(v);
  swapped[i] = __byte_perm(v, 0u, 0x0123);
  turned[i] = __funnelshift_l(v, v, 7);
}
