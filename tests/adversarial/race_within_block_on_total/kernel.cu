extern "C" __global__ void k(const float* x, int* count, long long n) {
  for (long long i = threadIdx.x; i < n; i += 256) {
    if (x[i] > 0.f) count[0] = count[0] + 1;
  }
}
