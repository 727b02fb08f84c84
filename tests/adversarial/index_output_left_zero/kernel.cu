extern "C" __global__ void k(const float* x, float* value, int* index, int cols) {
  if (threadIdx.x != 0) return;
  const float* r = x + (size_t)blockIdx.x * cols;
  float m = r[0];
  for (int j = 1; j < cols; ++j) m = fmaxf(m, r[j]);
  value[blockIdx.x] = m;
  index[blockIdx.x] = 0;
}
