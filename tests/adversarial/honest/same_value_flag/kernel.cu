extern "C" __global__ void k(const float* x, int* any, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n && x[i] > 2.f) *any = 1;  // whoever stores, stores the same
}
