extern "C" __global__ void k(const int* x, int* y, int n) {
  __shared__ int s[1024];
  int carry = 0;
  for (int first = 0; first < n; first += 1024) {
    const int i = first + threadIdx.x;
    if (i >= n) return;
    s[threadIdx.x] = x[i];
    __syncthreads();
    int v = 0;
    for (int j = 0; j <= threadIdx.x; ++j) v += s[j];
    y[i] = carry + v;
    int all = 0;
    for (int j = 0; j < min(1024, n - first); ++j) all += s[j];
    carry += all;
    if (threadIdx.x % 2 == 0) __syncthreads();
  }
}
