// As many threads as columns: blocks need not be a multiple of 32 wide.
extern "C" __global__ void votes(const float* __restrict__ x, bool* __restrict__ all_pos, bool* __restrict__ any_big,
                                 int* __restrict__ negatives, float limit) {
  const float v = x[(size_t)blockIdx.x * blockDim.x + threadIdx.x];
  const int every = __syncthreads_and(v > 0.f);
  const int some = __syncthreads_or(v > limit);
  const int count = __syncthreads_count(v < 0.f);
  if (threadIdx.x == 0) {
    all_pos[blockIdx.x] = every != 0;
    any_big[blockIdx.x] = some != 0;
    negatives[blockIdx.x] = count;
  }
}
