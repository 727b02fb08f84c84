// Two warps a row; a block takes every 512th.
extern "C" __global__ void spmv(const int* __restrict__ start, const int* __restrict__ col,
                                const float* __restrict__ val, const float* __restrict__ x, float* __restrict__ y,
                                int rows) {
  __shared__ float part[2];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int row = blockIdx.x; row < rows; row += gridDim.x) {
    float sum = 0.0f;
    for (int p = start[row] + (int)threadIdx.x; p < start[row + 1]; p += 64) sum += val[p] * x[col[p]];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (lane == 0) part[warp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) y[row] = part[0] + part[1];
  }
}
