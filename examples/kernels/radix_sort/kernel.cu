// One pass orders by 4 bits and keeps the order of equal digits; eight passes sort 32 bits.
extern "C" __global__ void count_digits(const uint32_t* __restrict__ keys, uint32_t* __restrict__ counts, int n, int shift,
                                        int blocks) {
  __shared__ uint32_t bins[16];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) atomicAdd(&bins[keys[i] >> shift & 15u], 1u);
  __syncthreads();
  // Digit-major: all blocks of digit 0, then all of digit 1, so that one scan gives every block its places.
  if (threadIdx.x < 16) counts[(size_t)threadIdx.x * blocks + blockIdx.x] = bins[threadIdx.x];
}

extern "C" __global__ void scan_counts(uint32_t* __restrict__ counts, int count) {
  __shared__ uint32_t warps[32];
  uint32_t carry = 0;
  const int lane = threadIdx.x & 31, w = threadIdx.x >> 5;
  for (int first = 0; first < count; first += 1024) {
    const int i = first + threadIdx.x;
    const uint32_t own = i < count ? counts[i] : 0u;
    uint32_t v = own;
    for (int d = 1; d < 32; d <<= 1) {
      const uint32_t left = __shfl_up_sync(~0u, v, d);
      if (lane >= d) v += left;
    }
    if (lane == 31) warps[w] = v;
    __syncthreads();
    uint32_t before = 0, all = 0;
    for (int k = 0; k < 32; ++k) {
      if (k < w) before += warps[k];
      all += warps[k];
    }
    if (i < count) counts[i] = carry + before + v - own;
    carry += all;
    __syncthreads();
  }
}

extern "C" __global__ void scatter(const uint32_t* __restrict__ keys, uint32_t* __restrict__ out,
                                   const uint32_t* __restrict__ counts, int n, int shift, int blocks) {
  __shared__ uint32_t per_warp[8][16];
  const int i = blockIdx.x * 256 + threadIdx.x, lane = threadIdx.x & 31, w = threadIdx.x >> 5;
  if (threadIdx.x < 128) per_warp[threadIdx.x / 16][threadIdx.x % 16] = 0;
  __syncthreads();
  const uint32_t key = i < n ? keys[i] : 0u;
  const uint32_t digit = i < n ? key >> shift & 15u : 16u;  // 16: no element
  // Lanes with the same digit find each other; the lowest of them counts for all.
  const uint32_t peers = __match_any_sync(~0u, digit);
  const uint32_t rank = __popc(peers & ((1u << lane) - 1u));
  if (digit < 16u && rank == 0) per_warp[w][digit] = __popc(peers);
  __syncthreads();
  if (i < n) {
    uint32_t at = counts[(size_t)digit * blocks + blockIdx.x] + rank;
    for (int k = 0; k < w; ++k) at += per_warp[k][digit];
    out[at] = key;
  }
}
