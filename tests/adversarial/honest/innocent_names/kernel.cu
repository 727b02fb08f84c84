__device__ float system_scale() { return 1.f; }
__device__ float lock(float v) { return v * v; }

extern "C" __global__ void main_kernel(const float* read, float* open, long long fork) {
  const long long exec = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (exec < fork) open[exec] = system_scale() * lock(read[exec]);
}
