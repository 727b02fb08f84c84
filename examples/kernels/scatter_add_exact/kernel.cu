extern "C" __global__ void scatter(const int* __restrict__ index, const float* __restrict__ v, float* y, unsigned int* hits,
                                   int n, int cols) {
  const int i = blockIdx.x * blockDim.y + threadIdx.y;
  if (i >= n) return;
  const int row = index[i];
  for (int c = threadIdx.x; c < cols; c += blockDim.x) atomicAdd(y + (size_t)row * cols + c, v[(size_t)i * cols + c]);
  if (threadIdx.x == 0) atomicInc(hits + row, 0xffffffffu);
}
