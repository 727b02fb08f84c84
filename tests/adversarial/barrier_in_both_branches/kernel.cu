extern "C" __global__ void k(const float* x, float* y) {
  __shared__ float s[256];
  if (threadIdx.x < 100) {
    s[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
  } else {
    s[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
  }
  y[blockIdx.x * 256 + threadIdx.x] = s[255 - threadIdx.x];
}
