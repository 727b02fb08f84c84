extern "C" __global__ void k(const uint8_t* img, unsigned int* out, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) out[i] = (unsigned int)img[4 * i + 3] << 24 | img[4 * i + 2] << 16 | img[4 * i + 1] << 8 | img[4 * i];
}
