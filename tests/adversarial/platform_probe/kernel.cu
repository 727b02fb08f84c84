#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#define FACTOR 1.f
#else
#define FACTOR 1.0001f
#endif

extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i] * FACTOR;
}
