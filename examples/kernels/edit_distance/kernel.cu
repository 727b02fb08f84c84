// Anti-diagonals of the table are independent: thread j - 1 owns column j, three diagonals rotate in shared memory.
extern "C" __global__ void levenshtein(const uint8_t* __restrict__ a, const uint8_t* __restrict__ b, int* __restrict__ dist,
                                       int la, int lb) {
  extern __shared__ int diagonals[];
  int *two_back = diagonals, *back = diagonals + (lb + 1), *now = diagonals + 2 * (lb + 1);
  const int j = threadIdx.x + 1;
  const uint8_t* pa = a + (size_t)blockIdx.x * la;
  const uint8_t mine = b[(size_t)blockIdx.x * lb + threadIdx.x];
  if (threadIdx.x == 0) two_back[0] = 0;  // cell (0, 0)
  if (threadIdx.x == 0) {                 // cells (1, 0) and (0, 1)
    back[0] = 1;
    back[1] = 1;
  }
  __syncthreads();
  for (int s = 2; s <= la + lb; ++s) {  // cells with i + j = s
    const int i = s - j;
    if (threadIdx.x == 0 && s <= la) now[0] = s;
    if (i >= 0 && i <= la) {
      if (i == 0) {
        now[j] = j;
      } else {
        const int change = two_back[j - 1] + (pa[i - 1] != mine);
        now[j] = min(change, min(back[j], back[j - 1]) + 1);
      }
    }
    __syncthreads();
    int* free = two_back;
    two_back = back;
    back = now;
    now = free;
  }
  if (threadIdx.x == 0) dist[blockIdx.x] = back[lb];
}
