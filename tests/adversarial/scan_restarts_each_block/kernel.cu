extern "C" __global__ void k(const int* x, int* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int s = 0;
  for (int j = blockIdx.x * blockDim.x; j <= i; ++j) s += x[j];
  y[i] = s;
}
