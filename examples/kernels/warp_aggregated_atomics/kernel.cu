// Lanes that found something and share an output elect a leader that adds for all of them.
extern "C" __global__ void count_above(const float* __restrict__ x, int* __restrict__ above, float limit, long long n) {
  const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n && x[i] > limit) {
    const int group = (int)(i / 1000);
    const unsigned int peers = __match_any_sync(__activemask(), group);
    const int leader = __ffs(peers) - 1;
    if ((int)(threadIdx.x % 32) == leader) atomicAdd(&above[group], __popc(peers));
  }
}
