extern "C" __global__ void k(float* x, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float left = i > 0 ? x[i - 1] : 0.f, right = i + 1 < n ? x[i + 1] : 0.f;
  x[i] = (left + x[i] + right) / 3.f;
}
