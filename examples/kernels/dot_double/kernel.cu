extern "C" __global__ void dot(const double2* __restrict__ a, const double2* __restrict__ b, double* y, long long n) {
  __shared__ double s[256];
  double sum = 0.0;
  const long long stride = (long long)gridDim.x * 256, first = blockIdx.x * 256ll + threadIdx.x;
  for (long long i = first; i < n / 2; i += stride) {
    const double2 p = a[i], q = b[i];
    sum = fma(p.x, q.x, fma(p.y, q.y, sum));
  }
  if (first == 0 && n % 2 == 1) sum = fma(a[n / 2].x, b[n / 2].x, sum);
  s[threadIdx.x] = sum;
  __syncthreads();
  for (int d = 128; d > 0; d >>= 1) {
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(y, s[0]);
}
