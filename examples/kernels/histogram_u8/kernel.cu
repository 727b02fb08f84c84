// Each block counts in shared memory and adds its 256 totals to the output once.
extern "C" __global__ void histogram(const uint8_t* __restrict__ x, int* __restrict__ hist, long long n) {
  __shared__ int bins[256];
  for (int b = threadIdx.x; b < 256; b += blockDim.x) bins[b] = 0;
  __syncthreads();
  const long long stride = (long long)gridDim.x * blockDim.x;
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += stride) atomicAdd(&bins[x[i]], 1);
  __syncthreads();
  for (int b = threadIdx.x; b < 256; b += blockDim.x) {
    if (bins[b] != 0) atomicAdd(&hist[b], bins[b]);
  }
}
