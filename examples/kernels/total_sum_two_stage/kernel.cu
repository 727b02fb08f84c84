// Tree reduction of one value a thread; the result is valid in thread 0.
__device__ float block_sum(float v) {
  __shared__ float s[BLOCK];
  s[threadIdx.x] = v;
  for (int d = BLOCK / 2; d > 0; d >>= 1) {
    __syncthreads();
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
  }
  return threadIdx.x == 0 ? s[0] : 0.f;  // the others must not read while thread 0 still adds
}

extern "C" __global__ void partial_sums(const float* __restrict__ x, float* __restrict__ partial, long long n) {
  float sum = 0.f;
  const long long stride = (long long)gridDim.x * BLOCK;
  for (long long i = blockIdx.x * (long long)BLOCK + threadIdx.x; i < n; i += stride) sum += x[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

extern "C" __global__ void final_sum(const float* __restrict__ partial, float* __restrict__ total, int count) {
  float sum = 0.f;
  for (int i = threadIdx.x; i < count; i += BLOCK) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total = sum;
}
