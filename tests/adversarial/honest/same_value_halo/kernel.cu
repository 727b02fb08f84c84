extern "C" __global__ void k(const float* x, float* y, long long n) {
  __shared__ float s[130];
  const long long first = blockIdx.x * 128ll;
  // Two threads may load the same halo cell; both store what memory holds.
  for (int d = -1; d <= 1; ++d) {
    const long long i = first + threadIdx.x + d;
    s[threadIdx.x + 1 + d] = i >= 0 && i < n ? x[i] : 0.f;
  }
  __syncthreads();
  if (first + threadIdx.x < n) y[first + threadIdx.x] = (s[threadIdx.x] + s[threadIdx.x + 1] + s[threadIdx.x + 2]) / 3.f;
}
