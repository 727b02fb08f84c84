extern "C" __global__ void k(const int8_t* a, const int8_t* b, int* y, int k) {
  if (threadIdx.x != 0) return;
  int16_t s = 0;
  for (int j = 0; j < k; ++j) s = (int16_t)(s + a[(size_t)blockIdx.x * k + j] * b[j]);
  y[blockIdx.x] = s;
}
