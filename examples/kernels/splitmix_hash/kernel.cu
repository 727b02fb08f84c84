extern "C" __global__ void hash(const uint64_t* __restrict__ x, uint64_t* __restrict__ y, int seed, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint64_t z = x[i] + (uint64_t)(seed + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  y[i] = z ^ (z >> 31);
}
