__device__ __forceinline__ void order(int& a, int& b) {
  const int lo = min(a, b);
  b = max(a, b);
  a = lo;
}

extern "C" __global__ void median(const uint16_t* __restrict__ x, uint16_t* __restrict__ y, int h, int w) {
  __shared__ uint16_t tile[18][18];
  const int left = blockIdx.x * 16 - 1, top = blockIdx.y * 16 - 1;
  for (int t = threadIdx.y * 16 + threadIdx.x; t < 18 * 18; t += 256) {
    const int i = min(max(top + t / 18, 0), h - 1), j = min(max(left + t % 18, 0), w - 1);
    tile[t / 18][t % 18] = x[(size_t)i * w + j];
  }
  __syncthreads();
  const int i = top + 1 + threadIdx.y, j = left + 1 + threadIdx.x;
  if (i >= h || j >= w) return;
  int v[9];
#pragma unroll
  for (int q = 0; q < 9; ++q) v[q] = tile[threadIdx.y + q / 3][threadIdx.x + q % 3];
  // A network of 19 exchanges that leaves the median in the middle.
  order(v[1], v[2]); order(v[4], v[5]); order(v[7], v[8]);
  order(v[0], v[1]); order(v[3], v[4]); order(v[6], v[7]);
  order(v[1], v[2]); order(v[4], v[5]); order(v[7], v[8]);
  order(v[0], v[3]); order(v[5], v[8]); order(v[4], v[7]);
  order(v[3], v[6]); order(v[1], v[4]); order(v[2], v[5]);
  order(v[4], v[7]); order(v[4], v[2]); order(v[6], v[4]);
  order(v[4], v[2]);
  y[(size_t)i * w + j] = (uint16_t)v[4];
}
