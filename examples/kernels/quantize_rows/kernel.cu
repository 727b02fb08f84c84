extern "C" __global__ void quantize(const float* __restrict__ x, int8_t* __restrict__ q, float* __restrict__ scale, int cols) {
  __shared__ unsigned int most;
  if (threadIdx.x == 0) most = 0u;
  __syncthreads();
  const size_t base = (size_t)blockIdx.x * cols;
  float m = 0.f;
  for (int j = threadIdx.x; j < cols; j += blockDim.x) m = fmaxf(m, fabsf(x[base + j]));
  // Non-negative floats are ordered like their bits.
  m = __uint_as_float(__reduce_max_sync(0xffffffffu, __float_as_uint(m)));
  if (threadIdx.x % 32 == 0) atomicMax(&most, __float_as_uint(m));
  __syncthreads();
  m = __uint_as_float(most);
  if (threadIdx.x == 0) scale[blockIdx.x] = m / 127.f;
  for (int j = threadIdx.x; j < cols; j += blockDim.x) {
    const int v = m > 0.f ? __float2int_rn(x[base + j] / m * 127.f) : 0;
    q[base + j] = (int8_t)max(-127, min(127, v));
  }
}
