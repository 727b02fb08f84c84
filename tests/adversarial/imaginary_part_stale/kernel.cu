extern "C" __global__ void k(const float2* a, const float2* b, float* y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[2 * i] = a[i].x * b[i].x - a[i].y * b[i].y;
}
