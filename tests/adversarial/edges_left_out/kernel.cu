extern "C" __global__ void step(const float* u, float* v, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < n - 1) v[i] = u[i] + 0.25f * (u[i - 1] - 2.f * u[i] + u[i + 1]);
}
