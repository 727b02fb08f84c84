extern "C" __global__ void row_loss(const float* __restrict__ x, const int* __restrict__ label, float* __restrict__ part,
                                    int rows, int classes) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float* r = x + (size_t)row * classes;
  float m = -INFINITY;
  for (int j = lane; j < classes; j += 32) m = fmaxf(m, r[j]);
  for (int d = 16; d > 0; d >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, d));
  float s = 0.f;
  for (int j = lane; j < classes; j += 32) s += expf(r[j] - m);
  for (int d = 16; d > 0; d >>= 1) s += __shfl_xor_sync(~0u, s, d);
  if (lane == 0) part[row] = logf(s) + (m - r[label[row]]);
}

extern "C" __global__ void mean_loss(const float* __restrict__ part, float* __restrict__ loss, int rows) {
  __shared__ float s[256];
  float sum = 0.f;
  for (int i = threadIdx.x; i < rows; i += 256) sum += part[i];
  s[threadIdx.x] = sum;
  __syncthreads();
  for (int d = 128; d > 0; d >>= 1) {
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
    __syncthreads();
  }
  if (threadIdx.x == 0) *loss = s[0] / rows;
}
