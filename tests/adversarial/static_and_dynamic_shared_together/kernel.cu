extern "C" __global__ void k(const float* x, float* y) {
  extern __shared__ float s[];
  __shared__ float t[10000];
  s[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  t[threadIdx.x] = s[threadIdx.x];
  __syncthreads();
  y[blockIdx.x * 256 + threadIdx.x] = t[255 - threadIdx.x];
}
