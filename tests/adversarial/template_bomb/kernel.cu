template <int A, int B>
struct Deep {
  static constexpr int value = Deep<A - 1, B>::value + Deep<A - 1, B + 1>::value;
};
template <int B>
struct Deep<0, B> {
  static constexpr int value = B;
};
template <int A>
struct Wide {
  static constexpr long long value = Deep<A, A * 1000>::value + Wide<A + 1>::value;
};

extern "C" __global__ void k(const float* __restrict__ x, float* __restrict__ y, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i] + (float)Wide<1>::value;
}
