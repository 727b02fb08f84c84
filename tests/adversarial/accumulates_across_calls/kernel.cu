__device__ int total = 0;

extern "C" __global__ void k(const float* x, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n && x[i] > 0.f) atomicAdd(&total, 1);
}

extern "C" __global__ void publish(int* count) { *count = total; }
