template <int N> struct alignas(N * sizeof(float)) Pack { float v[N]; };

struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
};

// What all threads of the block hold, combined; each thread gets the same bits.
template <typename Op> __device__ float all_of(float mine, float* warps, Op op) {
  for (int d = 16; d > 0; d >>= 1) mine = op(mine, __shfl_xor_sync(0xffffffffu, mine, d));
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
  __syncthreads();
  mine = warps[0];
  for (int w = 1; w < BLOCK / 32; ++w) mine = op(mine, warps[w]);
  return mine;
}

// One block a row, which is read once and stays in registers: ITEMS vectors for each thread cover it.
extern "C" __global__ void softmax_held(const float* __restrict__ x, float* __restrict__ y, int cols, float scale) {
  __shared__ float warps[2][BLOCK / 32];  // the maxima may still be read while the sums are written
  const Pack<VEC>* r = reinterpret_cast<const Pack<VEC>*>(x + (size_t)blockIdx.x * cols);
  Pack<VEC>* o = reinterpret_cast<Pack<VEC>*>(y + (size_t)blockIdx.x * cols);
  const int packs = cols / VEC;  // VEC divides cols
  Pack<VEC> held[ITEMS];
  float most = -INFINITY, total = 0.f;
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const int at = threadIdx.x + k * BLOCK;
    if (at < packs) held[k] = r[at];
  }
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    if (threadIdx.x + k * BLOCK < packs) {
#pragma unroll
      for (int i = 0; i < VEC; ++i) most = fmaxf(most, held[k].v[i] *= scale);
    }
  }
  most = all_of(most, warps[0], Largest());
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    if (threadIdx.x + k * BLOCK < packs) {
#pragma unroll
      for (int i = 0; i < VEC; ++i) total += held[k].v[i] = expf(held[k].v[i] - most);
    }
  }
  const float inv = 1.f / all_of(total, warps[1], Sum());
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const int at = threadIdx.x + k * BLOCK;
    if (at < packs) {
#pragma unroll
      for (int i = 0; i < VEC; ++i) held[k].v[i] *= inv;
      o[at] = held[k];
    }
  }
}

// Rows too long for the registers are read three times.
extern "C" __global__ void softmax_read(const float* __restrict__ x, float* __restrict__ y, int cols, float scale) {
  __shared__ float warps[2][BLOCK / 32];
  const float* r = x + (size_t)blockIdx.x * cols;
  float* o = y + (size_t)blockIdx.x * cols;
  float most = -INFINITY, total = 0.f;
  for (int j = threadIdx.x; j < cols; j += BLOCK) most = fmaxf(most, scale * r[j]);
  most = all_of(most, warps[0], Largest());
  for (int j = threadIdx.x; j < cols; j += BLOCK) total += expf(scale * r[j] - most);
  const float inv = 1.f / all_of(total, warps[1], Sum());
  for (int j = threadIdx.x; j < cols; j += BLOCK) o[j] = expf(scale * r[j] - most) * inv;
}
