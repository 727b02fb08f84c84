// fmaxf would turn a NaN into 0; the comparison keeps it.
__device__ __forceinline__ float relu(float v) { return v < 0.f ? 0.f : v; }

extern "C" __global__ void relu4(const float* __restrict__ x, float* __restrict__ y, long long n) {
  const long long stride = (long long)gridDim.x * blockDim.x;
  const long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  const float4* x4 = reinterpret_cast<const float4*>(x);
  float4* y4 = reinterpret_cast<float4*>(y);
  for (long long i = first; i < n / 4; i += stride) {
    float4 v = x4[i];
    v.x = relu(v.x); v.y = relu(v.y); v.z = relu(v.z); v.w = relu(v.w);
    y4[i] = v;
  }
  for (long long i = n / 4 * 4 + first; i < n; i += stride) y[i] = relu(x[i]);
}
