#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstdint>
#include <stdio.h>


extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  assert(n > 0 && n < LLONG_MAX);
  const int64_t j = static_cast<int64_t>(i);
  if (j < n) y[j] = fminf(x[j] * x[j], FLT_MAX);
}
