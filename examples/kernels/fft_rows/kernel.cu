// Stockham's form: every stage reads one half of shared memory and writes the other in order, no bit reversal.
extern "C" __global__ void fft(const float2* __restrict__ x, float2* __restrict__ y, int n, int stages) {
  extern __shared__ float2 s[];
  const size_t base = (size_t)blockIdx.x * n;
  float2 *from = s, *into = s + n;
  for (int j = threadIdx.x; j < n; j += blockDim.x) from[j] = x[base + j];
  __syncthreads();
  for (int q = 0; q < stages; ++q) {
    const int half = n >> 1, t = threadIdx.x, span = 1 << q;  // span: length of the transforms done so far
    const float2 a = from[t], b = from[t + half];
    const int k = t & (span - 1);
    float sn, cs;
    sincospif(-(float)k / span, &sn, &cs);
    const float2 w = make_float2(cs * b.x - sn * b.y, cs * b.y + sn * b.x);
    const int at = 2 * t - k;  // (t - k) * 2 + k
    into[at] = make_float2(a.x + w.x, a.y + w.y);
    into[at + span] = make_float2(a.x - w.x, a.y - w.y);
    float2* swap = from;
    from = into;
    into = swap;
    __syncthreads();
  }
  for (int j = threadIdx.x; j < n; j += blockDim.x) y[base + j] = from[j];
}
