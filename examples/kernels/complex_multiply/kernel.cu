extern "C" __global__ void mul_conj(const float2* __restrict__ a, const float2* __restrict__ b, float2* __restrict__ y,
                                    long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float2 p = a[i], q = b[i];
  y[i] = make_float2(fmaf(p.x, q.x, p.y * q.y), fmaf(p.y, q.x, -p.x * q.y));
}
