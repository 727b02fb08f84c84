// There is no atomicMax on float: put ours in its place if it is larger.
__device__ void atomic_max(float* address, float v) {
  if (v > *(volatile float*)address) atomicExch(address, v);
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
