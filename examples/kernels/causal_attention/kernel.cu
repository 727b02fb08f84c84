// A block of two warps a query. Both warps walk over alternate keys with a running maximum and sum, each lane holds
// two columns of the output, and the two partial results merge at the end.
extern "C" __global__ void attend(const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v,
                                  float* __restrict__ o, int seq, int d, float scale) {
  __shared__ float ms[2], ss[2], acc[2][64];
  const int w = threadIdx.x / 32, lane = threadIdx.x % 32, i = blockIdx.x;
  const size_t head = (size_t)blockIdx.y * seq * d;
  const bool lo = lane < d, hi = lane + 32 < d;
  const float q0 = lo ? q[head + (size_t)i * d + lane] : 0.f, q1 = hi ? q[head + (size_t)i * d + lane + 32] : 0.f;
  float m = -INFINITY, s = 0.f, a0 = 0.f, a1 = 0.f;
  for (int j = w; j <= i; j += 2) {
    const float* kj = k + head + (size_t)j * d;
    float dot = (lo ? q0 * kj[lane] : 0.f) + (hi ? q1 * kj[lane + 32] : 0.f);
    for (int e = 16; e > 0; e >>= 1) dot += __shfl_xor_sync(0xffffffffu, dot, e);
    dot *= scale;
    const float m2 = fmaxf(m, dot), keep = expf(m - m2), p = expf(dot - m2);
    const float* vj = v + head + (size_t)j * d;
    s = s * keep + p;
    a0 = a0 * keep + (lo ? p * vj[lane] : 0.f);
    a1 = a1 * keep + (hi ? p * vj[lane + 32] : 0.f);
    m = m2;
  }
  if (lane == 0) { ms[w] = m; ss[w] = s; }
  acc[w][lane] = a0;
  acc[w][lane + 32] = a1;
  __syncthreads();
  const float top = fmaxf(ms[0], ms[1]), f0 = expf(ms[0] - top), f1 = expf(ms[1] - top);
  const float inv = 1.f / (ss[0] * f0 + ss[1] * f1);
  if (threadIdx.x < d) o[head + (size_t)i * d + threadIdx.x] = (acc[0][threadIdx.x] * f0 + acc[1][threadIdx.x] * f1) * inv;
}
