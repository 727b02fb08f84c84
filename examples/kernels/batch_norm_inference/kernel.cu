// Grid (pixels, channels, images): the channel is a block index, so its constants are computed once a block row.
extern "C" __global__ void batch_norm(const float* __restrict__ x, const float* __restrict__ mean,
                                      const float* __restrict__ var, const float* __restrict__ gamma,
                                      const float* __restrict__ beta, float* __restrict__ y, int n, int c, int pixels,
                                      float eps) {
  const int p = blockIdx.x * blockDim.x + threadIdx.x;
  if (p >= pixels) return;
  for (int k = blockIdx.y; k < c; k += gridDim.y) {
    const float m = mean[k], scale = gamma[k] / sqrtf(var[k] + eps), shift = beta[k];
    for (int b = blockIdx.z; b < n; b += gridDim.z) {
      const size_t i = ((size_t)b * c + k) * pixels + p;
      y[i] = fmaf(x[i] - m, scale, shift);
    }
  }
}
