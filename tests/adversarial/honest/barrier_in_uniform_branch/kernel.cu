extern "C" __global__ void k(const float* x, float* y) {
  __shared__ float s[256];
  if (blockIdx.x % 2 == 0) {
    s[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 256 + threadIdx.x] = s[255 - threadIdx.x];
  } else {
    s[255 - threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 256 + threadIdx.x] = s[threadIdx.x];
  }
}
