extern "C" __global__ void k(const float* x, int* count, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  const int here = __syncthreads_count(i < n && x[i] > 0.f);
  if (threadIdx.x == 0) *count += here;
}
