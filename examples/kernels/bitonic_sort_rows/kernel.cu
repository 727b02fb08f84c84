// One block a row; a thread handles one pair a step, or several when the row is longer than twice the block.
extern "C" __global__ void sort_rows(const float* __restrict__ x, float* __restrict__ y, int cols) {
  extern __shared__ float s[];
  const size_t base = (size_t)blockIdx.x * cols;
  for (int j = threadIdx.x; j < cols; j += blockDim.x) s[j] = x[base + j];
  for (int size = 2; size <= cols; size <<= 1) {
    for (int d = size / 2; d > 0; d >>= 1) {
      __syncthreads();
      for (int t = threadIdx.x; t < cols / 2; t += blockDim.x) {
        const int lo = 2 * t - (t & (d - 1)), hi = lo + d;  // pairs at distance d
        const bool up = (lo & size) == 0;
        const float a = s[lo], b = s[hi];
        if ((a > b) == up) { s[lo] = b; s[hi] = a; }
      }
    }
  }
  __syncthreads();
  for (int j = threadIdx.x; j < cols; j += blockDim.x) y[base + j] = s[j];
}
