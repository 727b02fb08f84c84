extern "C" __global__ void blocks(const int* x, int* y, int* totals, int n) {
  __shared__ int s[256];
  const int i = blockIdx.x * 256 + threadIdx.x, t = threadIdx.x;
  s[t] = i < n ? x[i] : 0;
  __syncthreads();
  for (int d = 1; d < 256; d <<= 1) {
    const int v = t >= d ? s[t - d] : 0;
    __syncthreads();
    s[t] += v;
    __syncthreads();
  }
  if (i < n) y[i] = s[t];
  if (t == 255) totals[blockIdx.x] = s[255];
}

extern "C" __global__ void offsets(int* totals, int count) {
  __shared__ int s[256];
  const int t = threadIdx.x;
  s[t] = t < count ? totals[t] : 0;
  __syncthreads();
  if (t == 0) {
    for (int j = 1; j < 256; ++j) s[j] += s[j - 1];
  }
  __syncthreads();
  for (int j = t; j < count; j += 256) totals[j] = s[min(j, 255)];
}

extern "C" __global__ void add(int* y, const int* totals, int n) {
  const int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n && blockIdx.x > 0) y[i] += totals[blockIdx.x - 1];
}
