extern "C" __global__ void k(const int* idx, float* y, long long m) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < m) y[idx[i]] = 1.f;  // repeated indices store the same value
}
