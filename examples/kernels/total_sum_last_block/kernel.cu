__device__ float warp_sum(float v) {
  for (int d = 16; d > 0; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
  return v;
}

__device__ float block_sum(float v) {
  __shared__ float s[BLOCK / 32];
  v = warp_sum(v);
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x < BLOCK / 32 ? s[threadIdx.x] : 0.f;
  if (threadIdx.x < 32) v = warp_sum(v);
  return v;  // valid in thread 0
}

extern "C" __global__ void sum_squares(const float* __restrict__ x, volatile float* partial, unsigned int* done,
                                       float* total, long long n) {
  float sum = 0.f;
  const long long stride = (long long)gridDim.x * BLOCK;
  for (long long i = blockIdx.x * (long long)BLOCK + threadIdx.x; i < n; i += stride) sum = fmaf(x[i], x[i], sum);
  sum = block_sum(sum);

  __shared__ bool last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();  // the partial sum is visible before the ticket is drawn
    last = atomicAdd(done, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;

  sum = 0.f;
  for (int i = threadIdx.x; i < gridDim.x; i += BLOCK) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total = sum;
}
