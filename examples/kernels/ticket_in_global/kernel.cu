// Starts at 0 when the module is loaded; atomicInc wraps it back to 0 after the last block of every launch.
__device__ unsigned int ticket = 0;

__device__ float block_max(float v) {
  __shared__ float s[8];
  for (int d = 16; d > 0; d >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
  __syncthreads();
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
  __syncthreads();
  for (int w = 0; w < 8; ++w) v = fmaxf(v, s[w]);
  return v;
}

extern "C" __global__ void abs_max(const float* __restrict__ x, volatile float* part, float* most, long long n) {
  float v = 0.f;
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) v = fmaxf(v, fabsf(x[i]));
  v = block_max(v);
  __shared__ bool last;
  if (threadIdx.x == 0) {
    part[blockIdx.x] = v;
    __threadfence();
    last = atomicInc(&ticket, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  v = threadIdx.x < gridDim.x ? part[threadIdx.x] : 0.f;
  v = block_max(v);
  if (threadIdx.x == 0) most[0] = v;
}
