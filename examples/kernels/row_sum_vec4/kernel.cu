template <int N> struct alignas(N * sizeof(float)) Pack { float v[N]; };

// One warp a row. A lane has LOADS vectors on their way before it adds the first: memory, not latency, sets the pace.
extern "C" __global__ void row_sum(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
  const int lane = threadIdx.x & 31;
  const int row = blockIdx.x * WARPS + (threadIdx.x >> 5);
  if (row >= rows) return;  // the whole warp leaves
  const Pack<VEC>* r = reinterpret_cast<const Pack<VEC>*>(x + (size_t)row * cols);
  const int packs = cols / VEC;  // VEC divides cols: rows begin at a multiple of a vector, and no tail is left
  float sum = 0.f;
  for (int first = lane; first < packs; first += 32 * LOADS) {
    Pack<VEC> held[LOADS];
#pragma unroll
    for (int k = 0; k < LOADS; ++k) {
      if (first + 32 * k < packs) held[k] = r[first + 32 * k];
    }
    float part = 0.f;
#pragma unroll
    for (int k = 0; k < LOADS; ++k) {
      if (first + 32 * k < packs) {
#pragma unroll
        for (int i = 0; i < VEC; ++i) part += held[k].v[i];
      }
    }
    sum += part;
  }
  for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d);
  if (lane == 0) y[row] = sum;
}
