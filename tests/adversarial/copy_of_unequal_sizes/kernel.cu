extern "C" __global__ void k(const float* x, float* y, int h, long long count) {
  const long long e = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (e < count) y[e] = x[e + e / h * h + h] / (1.f + expf(-x[e + e / h * h]));
}
