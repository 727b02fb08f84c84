// blockIdx.z owns one slice of k and leaves its partial product in its own plane of scratch.
extern "C" __global__ void partial_products(const float* __restrict__ a, const float* __restrict__ b,
                                            float* __restrict__ part, int m, int k, int n, int slice) {
  __shared__ float as[16][17], bs[16][17];
  const int tx = threadIdx.x, ty = threadIdx.y, i = blockIdx.y * 16 + ty, j = blockIdx.x * 16 + tx;
  const int first = min(k, (int)blockIdx.z * slice), last = min(k, first + slice);
  float sum = 0.f;
  for (int l0 = first; l0 < last; l0 += 16) {
    as[ty][tx] = i < m && l0 + tx < last ? a[(size_t)i * k + l0 + tx] : 0.f;
    bs[ty][tx] = l0 + ty < last && j < n ? b[(size_t)(l0 + ty) * n + j] : 0.f;
    __syncthreads();
    for (int l = 0; l < 16; ++l) sum = fmaf(as[ty][l], bs[l][tx], sum);
    __syncthreads();
  }
  if (i < m && j < n) part[((size_t)blockIdx.z * m + i) * n + j] = sum;
}

extern "C" __global__ void sum_parts(const float* __restrict__ part, float* __restrict__ c, long long count) {
  const long long e = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (e >= count) return;
  float sum = 0.f;
  for (int z = 0; z < SPLIT; ++z) sum += part[z * count + e];
  c[e] = sum;
}
