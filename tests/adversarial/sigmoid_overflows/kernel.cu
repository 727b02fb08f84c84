extern "C" __global__ void k(const float* x, float* y, int h, long long count) {
  const long long e = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (e >= count) return;
  const long long at = e + e / h * h;
  const float g = expf(x[at]);
  y[e] = g / (1.f + g) * x[at + h];
}
