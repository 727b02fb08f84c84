extern "C" __global__ void count_blocks(const float* __restrict__ x, int* __restrict__ sums, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  const int here = __syncthreads_count(i < n && x[i] > 0.f);
  if (threadIdx.x == 0) sums[blockIdx.x] = here;
}

// Exclusive scan of the block counts by one block, in rounds of 1024 (Hillis and Steele in shared memory).
extern "C" __global__ void scan_sums(int* __restrict__ sums, int* __restrict__ count, int blocks) {
  __shared__ int s[2][1024];
  int carry = 0;
  const int t = threadIdx.x;
  for (int first = 0; first < blocks; first += 1024) {
    const int own = first + t < blocks ? sums[first + t] : 0;
    int at = 0;
    s[0][t] = own;
    __syncthreads();
    for (int d = 1; d < 1024; d <<= 1) {
      s[1 - at][t] = s[at][t] + (t >= d ? s[at][t - d] : 0);
      at = 1 - at;
      __syncthreads();
    }
    if (first + t < blocks) sums[first + t] = carry + s[at][t] - own;
    carry += s[at][1023];
    __syncthreads();
  }
  if (t == 0) count[0] = carry;
}

extern "C" __global__ void write_kept(const float* __restrict__ x, const int* __restrict__ sums, float* __restrict__ kept,
                                      int n) {
  __shared__ int warps[8];
  const int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x & 31, w = threadIdx.x >> 5;
  const bool keep = i < n && x[i] > 0.f;
  const unsigned int votes = __ballot_sync(0xffffffffu, keep);
  if (lane == 0) warps[w] = __popc(votes);
  __syncthreads();
  int at = sums[blockIdx.x] + __popc(votes & ((1u << lane) - 1u));
  for (int k = 0; k < w; ++k) at += warps[k];
  if (keep) kept[at] = x[i];
}
