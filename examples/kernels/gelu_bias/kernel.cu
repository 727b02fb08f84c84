// 2-D grid: x runs along the row, so neighbouring threads touch neighbouring addresses.
extern "C" __global__ void gelu_bias(const float* __restrict__ x, const float* __restrict__ b, float* __restrict__ y,
                                     int rows, int cols) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x;
  if (j >= cols) return;
  const float bias = __ldg(b + j);
  for (int i = blockIdx.y * blockDim.y + threadIdx.y; i < rows; i += gridDim.y * blockDim.y) {
    const size_t k = (size_t)i * cols + j;
    const float t = x[k] + bias;
    y[k] = 0.5f * t * (1.f + erff(t * 0.70710678f));
  }
}
