#ifdef __GNUC__
#define SQUARE(v) (v) * (v)
#else
#define SQUARE(v) (v)
#endif

extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = SQUARE(x[i]);
}
