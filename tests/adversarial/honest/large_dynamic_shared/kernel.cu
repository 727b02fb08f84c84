extern "C" __global__ void k(const float* x, float* y, int count) {
  extern __shared__ float s[];  // 100 KB: needs the launcher's opt-in
  for (int j = threadIdx.x; j < 25600; j += 256) s[j] = 0.f;
  __syncthreads();
  s[100 * threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  y[blockIdx.x * 256 + threadIdx.x] = s[100 * (255 - threadIdx.x)];
}
