extern "C" __global__ void polar(const float2* __restrict__ x, float* __restrict__ r, float* __restrict__ phi,
                                 float2* __restrict__ turned, float by, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float2 p = x[i];
  r[i] = hypotf(p.x, p.y);
  phi[i] = atan2f(p.y, p.x);
  float s, c;
  sincosf(by, &s, &c);
  turned[i] = make_float2(fmaf(c, p.x, -s * p.y), fmaf(s, p.x, c * p.y));
}
