#include <cuda_bf16.h>
#include <mma.h>
using namespace nvcuda;

// One warp a block, 2 x 2 tiles: each fragment loaded is used twice. A transposed b is a column-major operand.
extern "C" __global__ void matmul(const __nv_bfloat16* __restrict__ a, const __nv_bfloat16* __restrict__ b,
                                  float* __restrict__ c, int k, int n) {
  const size_t top = blockIdx.y * 32, left = blockIdx.x * 32;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> fa[2];
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::col_major> fb[2];
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc[2][2];
  for (int p = 0; p < 2; ++p)
    for (int q = 0; q < 2; ++q) wmma::fill_fragment(fc[p][q], 0.f);
  for (int l = 0; l < k; l += 16) {
    for (int p = 0; p < 2; ++p) {
      wmma::load_matrix_sync(fa[p], a + (top + 16 * p) * k + l, k);
      wmma::load_matrix_sync(fb[p], b + (left + 16 * p) * k + l, k);
    }
    for (int p = 0; p < 2; ++p)
      for (int q = 0; q < 2; ++q) wmma::mma_sync(fc[p][q], fa[p], fb[q], fc[p][q]);
  }
  for (int p = 0; p < 2; ++p)
    for (int q = 0; q < 2; ++q)
      wmma::store_matrix_sync(c + (top + 16 * p) * n + left + 16 * q, fc[p][q], n, wmma::mem_row_major);
}
