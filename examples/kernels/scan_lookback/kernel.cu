// state[b] = flag << 32 | value; flag 0: nothing yet, 1: sum of block b alone, 2: sum of blocks 0 to b.
// Flag and value share one 64-bit word, so a reader never sees one without the other.
extern "C" __global__ void scan(const uint32_t* __restrict__ x, uint32_t* __restrict__ y, unsigned long long* state,
                                unsigned int* ticket, long long n) {
  __shared__ unsigned int s_block, s_prefix, warps[BLOCK / 32];
  // Blocks number themselves in the order they start: every block waits for blocks that already run.
  if (threadIdx.x == 0) s_block = atomicAdd(ticket, 1u);
  __syncthreads();
  const unsigned int block = s_block;
  const int lane = threadIdx.x % 32, w = threadIdx.x / 32;
  const long long i = block * (long long)BLOCK + threadIdx.x;
  unsigned int v = i < n ? x[i] : 0u;
  for (int d = 1; d < 32; d <<= 1) {
    const unsigned int left = __shfl_up_sync(0xffffffffu, v, d);
    if (lane >= d) v += left;
  }
  if (lane == 31) warps[w] = v;
  __syncthreads();
  for (int k = 0; k < w; ++k) v += warps[k];

  if (threadIdx.x == BLOCK - 1) {  // holds the sum of the block
    unsigned int prefix = 0;
    if (block > 0) {
      atomicExch(&state[block], 1ull << 32 | v);
      for (long long b = (long long)block - 1;; ) {
        const unsigned long long seen = atomicAdd(&state[b], 0ull);
        if (seen >> 32 == 0) continue;  // not published yet
        prefix += (unsigned int)seen;
        if (seen >> 32 == 2) break;
        --b;
      }
    }
    atomicExch(&state[block], 2ull << 32 | (unsigned int)(prefix + v));
    s_prefix = prefix;
  }
  __syncthreads();
  if (i < n) y[i] = s_prefix + v;
}
