extern "C" __global__ void conv2d(const float* __restrict__ x, const float* __restrict__ f, const float* __restrict__ b,
                                  float* __restrict__ y, int ci, int co, int h, int w, int k, int ho, int wo) {
  const int across = (wo + 31) / 32;
  const int j = blockIdx.x % across * 32 + threadIdx.x, i = blockIdx.x / across * 4 + threadIdx.y;
  if (i >= ho || j >= wo) return;
  const int s = blockIdx.z, pad = k / 2;
  for (int o = blockIdx.y; o < co; o += gridDim.y) {
    float sum = b[o];
    for (int c = 0; c < ci; ++c) {
      const float* plane = x + ((size_t)s * ci + c) * h * w;
      const float* taps = f + ((size_t)o * ci + c) * k * k;  // the same for the whole block: a broadcast
      for (int p = 0; p < k; ++p) {
        const int r = i + p - pad;
        if (r < 0 || r >= h) continue;
        for (int q = 0; q < k; ++q) {
          const int t = j + q - pad;
          if (t >= 0 && t < w) sum = fmaf(__ldg(taps + p * k + q), __ldg(plane + (size_t)r * w + t), sum);
        }
      }
    }
    y[(((size_t)s * co + o) * ho + i) * wo + j] = sum;
  }
}
