#include <mma.h>
using namespace nvcuda;

// A warp a 16 x 16 tile of c.
extern "C" __global__ void matmul(const __half* __restrict__ a, const __half* __restrict__ b, float* __restrict__ c, int m,
                                  int k, int n) {
  const int top = (blockIdx.y * 4 + threadIdx.x / 32) * 16, left = blockIdx.x * 16;
  if (top >= m) return;  // a whole warp leaves
  wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.f);
  for (int l = 0; l < k; l += 16) {
    wmma::load_matrix_sync(fa, a + (size_t)top * k + l, k);
    wmma::load_matrix_sync(fb, b + (size_t)l * n + left, n);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(c + (size_t)top * n + left, fc, n, wmma::mem_row_major);
}
