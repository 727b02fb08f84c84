extern "C" __global__ void price(const float* __restrict__ s, const float* __restrict__ k, const float* __restrict__ t,
                                 float* __restrict__ call, float* __restrict__ put, float r, float vol, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float root = vol * sqrtf(t[i]), d1 = (logf(s[i] / k[i]) + (r + 0.5f * vol * vol) * t[i]) / root, d2 = d1 - root;
  const float discounted = k[i] * expf(-r * t[i]);
  call[i] = s[i] * normcdff(d1) - discounted * normcdff(d2);
  put[i] = discounted * normcdff(-d2) - s[i] * normcdff(-d1);
}
