// Inclusive scan of one value a thread: shuffles inside warps, then the warp totals.
__device__ int64_t block_scan(int64_t v) {
  __shared__ int64_t warps[BLOCK / 32];
  const int lane = threadIdx.x % 32, w = threadIdx.x / 32;
  for (int d = 1; d < 32; d <<= 1) {
    const int64_t left = __shfl_up_sync(0xffffffffu, v, d);
    if (lane >= d) v += left;
  }
  __syncthreads();  // an earlier call may still be read
  if (lane == 31) warps[w] = v;
  __syncthreads();
  for (int k = 0; k < w; ++k) v += warps[k];
  return v;
}

extern "C" __global__ void scan_blocks(const int* __restrict__ x, int64_t* __restrict__ y, int64_t* __restrict__ totals,
                                       int64_t n) {
  const int64_t i = blockIdx.x * (int64_t)BLOCK + threadIdx.x;
  const int64_t v = block_scan(i < n ? x[i] : 0);
  if (i < n) y[i] = v;
  if (threadIdx.x == BLOCK - 1) totals[blockIdx.x] = v;
}

// One block turns the totals into exclusive offsets, BLOCK of them at a time.
extern "C" __global__ void scan_totals(int64_t* __restrict__ totals, int64_t count) {
  __shared__ int64_t carry;
  if (threadIdx.x == 0) carry = 0;
  for (int64_t first = 0; first < count; first += BLOCK) {
    const int64_t i = first + threadIdx.x, own = i < count ? totals[i] : 0;
    const int64_t v = block_scan(own);  // its barriers also publish carry
    const int64_t base = carry;
    if (i < count) totals[i] = base + v - own;
    __syncthreads();
    if (threadIdx.x == BLOCK - 1) carry = base + v;
  }
}

extern "C" __global__ void add_offsets(int64_t* __restrict__ y, const int64_t* __restrict__ totals, int64_t n) {
  const int64_t i = blockIdx.x * (int64_t)BLOCK + threadIdx.x;
  if (i < n) y[i] += totals[blockIdx.x];
}
