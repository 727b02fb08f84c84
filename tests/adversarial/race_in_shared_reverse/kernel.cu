extern "C" __global__ void k(const float* x, float* y) {
  __shared__ float s[256];
  s[threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  y[blockIdx.x * 256 + threadIdx.x] = s[255 - threadIdx.x];
}
