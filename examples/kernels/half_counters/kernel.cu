#include <cuda_fp16.h>

extern "C" __global__ void add_weights(const int* __restrict__ bin, const __half* __restrict__ w, __half* sum, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(sum + bin[i], w[i]);
}
