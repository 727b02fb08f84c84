#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void matmul(const double* __restrict__ a, const double* __restrict__ b, double* __restrict__ c, int k,
                                  int n) {
  const size_t top = blockIdx.y * 8, left = blockIdx.x * 8;
  wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 8, 8, 4, double> fc;
  wmma::fill_fragment(fc, 0.0);
  for (int l = 0; l < k; l += 4) {
    wmma::load_matrix_sync(fa, a + top * k + l, k);
    wmma::load_matrix_sync(fb, b + (size_t)l * n + left, n);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(c + top * n + left, fc, n, wmma::mem_row_major);
}
