extern "C" __global__ void k(float* x, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  float v = 0.f;
  if (i < n) v = ((i > 0 ? x[i - 1] : 0.f) + x[i] + (i + 1 < n ? x[i + 1] : 0.f)) / 3.f;
  __syncthreads();
  if (i < n) x[i] = v;
}
