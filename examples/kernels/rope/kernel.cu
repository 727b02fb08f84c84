extern "C" __global__ void rotate(const float* __restrict__ x, float* __restrict__ y, int half) {
  const int j = threadIdx.x, pos = blockIdx.x;
  const size_t base = ((size_t)pos * gridDim.y + blockIdx.y) * 2 * half + j;
  // The angle reaches thousands of radians: float64 keeps its fraction, the rotation itself is float32.
  const double angle = pos * exp(-log(10000.0) * j / half);
  const float c = (float)cos(angle), s = (float)sin(angle);
  const float a = x[base], b = x[base + half];
  y[base] = a * c - b * s;
  y[base + half] = b * c + a * s;
}
