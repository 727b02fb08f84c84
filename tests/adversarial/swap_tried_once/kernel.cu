// There is no atomicMax on float: swap the bits if ours is larger.
__device__ void atomic_max(float* address, float v) {
  const int seen = __float_as_int(*(volatile float*)address);
  if (v > __int_as_float(seen)) atomicCAS((int*)address, seen, __float_as_int(v));
}

// A thread a column and chunk of 32 rows; the chunk's maximum goes out once.
extern "C" __global__ void column_max(const float* __restrict__ x, float* most, int rows, int cols) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= cols) return;
  for (int first = blockIdx.y * 32; first < rows; first += gridDim.y * 32) {
    float m = -INFINITY;
    for (int i = first; i < min(rows, first + 32); ++i) m = fmaxf(m, x[(size_t)i * cols + j]);
    atomic_max(most + j, m);
  }
}
