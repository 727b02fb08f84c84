extern "C" __global__ void k(const float* x, int* count, long long n) {
  __shared__ int here;
  if (threadIdx.x == 0) here = 0;
  __syncthreads();
  for (long long i = threadIdx.x; i < n; i += 256) {
    if (x[i] > 0.f) atomicAdd(&here, 1);
  }
  __syncthreads();
  if (threadIdx.x == 0) *count = here;
}
