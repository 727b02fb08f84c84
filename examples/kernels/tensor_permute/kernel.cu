// One thread an output element: stores are coalesced, loads gather through the cache.
extern "C" __global__ void permute(const int16_t* __restrict__ x, int16_t* __restrict__ y, int a, int b, int c, int d) {
  const int64_t e = blockIdx.x * (int64_t)blockDim.x + threadIdx.x;
  if (e >= (int64_t)a * b * c * d) return;
  int64_t rest = e;
  const int j = rest % b;
  rest /= b;
  const int l = rest % d;
  rest /= d;
  const int i = rest % a, k = rest / a;
  y[e] = x[(((int64_t)i * b + j) * c + k) * d + l];
}
