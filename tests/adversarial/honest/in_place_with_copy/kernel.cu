extern "C" __global__ void k(const float* old, float* x, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) x[i] = ((i > 0 ? old[i - 1] : 0.f) + old[i] + (i + 1 < n ? old[i + 1] : 0.f)) / 3.f;
}
