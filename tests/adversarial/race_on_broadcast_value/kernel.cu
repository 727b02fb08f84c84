extern "C" __global__ void k(const float* x, float* y, int cols) {
  const float* r = x + (size_t)blockIdx.x * cols;
  float* o = y + (size_t)blockIdx.x * cols;
  __shared__ float top, sum;
  if (threadIdx.x == 0) {
    top = r[0];
    for (int j = 1; j < cols; ++j) top = fmaxf(top, r[j]);
  }
  __syncthreads();
  const float m = top;
  if (threadIdx.x == 0) {
    sum = 0.f;
    for (int j = 0; j < cols; ++j) sum += expf(r[j] - m);
  }
  for (int j = threadIdx.x; j < cols; j += blockDim.x) o[j] = expf(r[j] - m) / sum;
}
