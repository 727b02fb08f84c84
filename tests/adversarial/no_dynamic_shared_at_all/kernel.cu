extern "C" __global__ void k(const float* x, float* y) {
  extern __shared__ float s[];
  s[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  y[blockIdx.x * 256 + threadIdx.x] = s[255 - threadIdx.x];
}
