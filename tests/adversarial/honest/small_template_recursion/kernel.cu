template <int N>
__device__ float power(float v) {
  if constexpr (N == 0) return 1.f;
  else return v * power<N - 1>(v);
}

extern "C" __global__ void k(const float* x, float* y, float a, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) y[i] = power<1>(a) * x[i] * power<0>(a);
}
