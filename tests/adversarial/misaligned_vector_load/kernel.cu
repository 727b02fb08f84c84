extern "C" __global__ void k(const float* x, float* y, float a, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i == 0) y[0] = a * x[0];
  const long long j = 1 + 4 * i;
  if (j + 3 < n) {
    const float4 v = *reinterpret_cast<const float4*>(x + j);
    *reinterpret_cast<float4*>(y + j) = make_float4(a * v.x, a * v.y, a * v.z, a * v.w);
  } else {
    for (long long q = j; q < n; ++q) y[q] = a * x[q];
  }
}
