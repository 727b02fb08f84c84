// One thread per cell of the flattened board.
extern "C" __global__ void life_step(const uint8_t* __restrict__ cur, uint8_t* __restrict__ nxt, int h, int w) {
  const long long k = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (k >= (long long)h * w) return;
  const int i = (int)(k / w), j = (int)(k % w);
  const int up = i == 0 ? h - 1 : i - 1, down = i == h - 1 ? 0 : i + 1;
  const int left = j == 0 ? w - 1 : j - 1, right = j == w - 1 ? 0 : j + 1;
  const uint8_t* a = cur + (size_t)up * w;
  const uint8_t* b = cur + (size_t)i * w;
  const uint8_t* c = cur + (size_t)down * w;
  const int n = a[left] + a[j] + a[right] + b[left] + b[right] + c[left] + c[j] + c[right];
  nxt[k] = (n == 3) || (n == 2 && b[j]);
}
