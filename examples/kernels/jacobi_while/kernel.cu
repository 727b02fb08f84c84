// The host reads `go` between passes; a pass is two sweeps, so that the result is always in the first buffer.
// Many threads may store the same 1: they agree, so nothing is lost.
extern "C" __global__ void sweep(const float* __restrict__ from, float* __restrict__ to, const float* __restrict__ b, int* go,
                                 int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float left = i > 0 ? from[i - 1] : 0.f, right = i + 1 < n ? from[i + 1] : 0.f;
  const float v = 0.25f * (b[i] + left + right);
  to[i] = v;
  if (fabsf(v - from[i]) > 1e-7f * fabsf(v)) *go = 1;
}
