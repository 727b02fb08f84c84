extern "C" __global__ void k(const float* x, volatile int* count, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n && x[i] > 0.f) {
    *count = *count + 1;
    __threadfence();
  }
}
