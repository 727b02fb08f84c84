// Eight lanes a row: rows hold about ten entries, a whole warp would mostly wait.
extern "C" __global__ void spmv(const int* __restrict__ start, const int* __restrict__ col, const float* __restrict__ val,
                                const float* __restrict__ x, float* __restrict__ y, int rows) {
  const int row = blockIdx.x * 32 + threadIdx.x / 8, sub = threadIdx.x % 8;
  float sum = 0.f;
  if (row < rows) {
    for (int p = start[row] + sub; p < start[row + 1]; p += 8) sum = fmaf(val[p], __ldg(x + col[p]), sum);
  }
  for (int d = 4; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d, 8);  // all lanes of the warp take part
  if (row < rows && sub == 0) y[row] = sum;
}
