// A scalar prologue up to the next multiple of 16 bytes, whatever the pointer.
extern "C" __global__ void k(const float* x, float* y, long long n) {
  const long long head = min(n, (long long)((16 - ((unsigned long long)x & 15)) & 15) / 4);
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < head) y[i] = x[i] * x[i];
  const long long body = (n - head) / 4;
  if (i < body) {
    const float4 v = reinterpret_cast<const float4*>(x + head)[i];
    float* o = y + head + 4 * i;
    o[0] = v.x * v.x; o[1] = v.y * v.y; o[2] = v.z * v.z; o[3] = v.w * v.w;
  }
  const long long t = head + 4 * body + i;
  if (t < n) y[t] = x[t] * x[t];
}
