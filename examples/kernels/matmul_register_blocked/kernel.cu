// 64 x 64 outputs a block, 4 x 4 a thread, steps of 16 along k. The tile of a is stored transposed, so both operands
// of the inner product are rows of shared memory; the extra column keeps the transposed stores off one bank.
extern "C" __global__ void __launch_bounds__(256) matmul(const float* __restrict__ a, const float* __restrict__ b,
                                                        float* __restrict__ c, int m, int k, int n) {
  __shared__ float as[16][64 + 4];
  __shared__ float bs[16][64];
  const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx, left = blockIdx.x * 64;
  for (int top = blockIdx.y * 64; top < m; top += gridDim.y * 64) {
    float acc[4][4] = {};
    for (int l0 = 0; l0 < k; l0 += 16) {
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const int ai = t / 16 + q * 16, al = t % 16;  // 16 consecutive k of one row
        as[al][ai] = top + ai < m && l0 + al < k ? a[(size_t)(top + ai) * k + l0 + al] : 0.f;
        const int bl = t / 64 + q * 4, bj = t % 64;  // 64 consecutive columns of one row
        bs[bl][bj] = l0 + bl < k && left + bj < n ? b[(size_t)(l0 + bl) * n + left + bj] : 0.f;
      }
      __syncthreads();
#pragma unroll
      for (int l = 0; l < 16; ++l) {
        const float4 av = *reinterpret_cast<const float4*>(&as[l][ty * 4]);
        const float4 bv = *reinterpret_cast<const float4*>(&bs[l][tx * 4]);
        const float ar[4] = {av.x, av.y, av.z, av.w}, br[4] = {bv.x, bv.y, bv.z, bv.w};
#pragma unroll
        for (int p = 0; p < 4; ++p)
#pragma unroll
          for (int q = 0; q < 4; ++q) acc[p][q] = fmaf(ar[p], br[q], acc[p][q]);
      }
      __syncthreads();
    }
#pragma unroll
    for (int p = 0; p < 4; ++p)
#pragma unroll
      for (int q = 0; q < 4; ++q) {
        const int i = top + ty * 4 + p, j = left + tx * 4 + q;
        if (i < m && j < n) c[(size_t)i * n + j] = acc[p][q];
      }
  }
}
