extern "C" __global__ void k(const float4* x, float4* y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n / 4) {
    const float4 v = x[i];
    y[i] = make_float4(v.x * v.x, v.y * v.y, v.z * v.z, v.w * v.w);
  }
}
