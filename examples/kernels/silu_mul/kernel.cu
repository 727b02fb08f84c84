extern "C" __global__ void silu_mul(const float* __restrict__ x, float* __restrict__ y, int h, long long count) {
  const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (k >= count) return;
  const long long row = k / h;
  const long long base = row * h + k;  // row * 2h + column
  const float gate = x[base], up = x[base + h];
  y[k] = gate / (1.f + expf(-gate)) * up;
}
