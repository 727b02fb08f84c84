extern "C" __global__ void life(const uint8_t* __restrict__ old, uint8_t* __restrict__ next, int h, int w) {
  const int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= h || j >= w) return;
  int alive = 0;
  for (int di = -1; di <= 1; ++di) {
    for (int dj = -1; dj <= 1; ++dj) {
      if (di != 0 || dj != 0) alive += old[(size_t)((i + di + h) % h) * w + (j + dj + w) % w];
    }
  }
  const size_t k = (size_t)i * w + j;
  next[k] = alive == 3 || (alive == 2 && old[k]);
}
