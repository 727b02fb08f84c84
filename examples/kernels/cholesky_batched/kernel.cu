// A warp a matrix; lane i owns row i. __syncwarp separates the steps, as lanes read rows of each other.
extern "C" __global__ void cholesky(const double* __restrict__ a, double* __restrict__ l, int n) {
  __shared__ double s[32][33];
  const int i = threadIdx.x;
  const size_t base = (size_t)blockIdx.x * n * n;
  for (int r = 0; r < n; ++r) {
    if (i < n) s[r][i] = a[base + r * n + i];
  }
  __syncwarp();
  for (int j = 0; j < n; ++j) {
    double sum = 0.0;
    if (i >= j && i < n) {
      sum = s[i][j];
      for (int k = 0; k < j; ++k) sum -= s[i][k] * s[j][k];
    }
    const double pivot = sqrt(__shfl_sync(0xffffffffu, sum, j));
    __syncwarp();
    if (i >= j && i < n) s[i][j] = i == j ? pivot : sum / pivot;
    __syncwarp();
  }
  for (int r = 0; r < n; ++r) {
    if (i < n) l[base + r * n + i] = i <= r ? s[r][i] : 0.0;
  }
}
