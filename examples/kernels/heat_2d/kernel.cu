extern "C" __global__ void step(const float* __restrict__ u, float* __restrict__ v, int h, int w, float alpha) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= h || j >= w) return;
  const size_t k = (size_t)i * w + j;
  const float c = u[k];
  if (i == 0 || j == 0 || i == h - 1 || j == w - 1) {
    v[k] = c;
  } else {
    v[k] = fmaf(alpha, (u[k - w] + u[k + w]) + (u[k - 1] + u[k + 1]) - 4.f * c, c);
  }
}
