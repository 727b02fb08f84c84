#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void matmul(const int8_t* __restrict__ a, const int8_t* __restrict__ b, int* __restrict__ c, int k,
                                  int n) {
  const size_t top = blockIdx.y * 16, left = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> fc;
  wmma::fill_fragment(fc, 0);
  for (int l = 0; l < k; l += 16) {
    wmma::load_matrix_sync(fa, a + top * k + l, k);
    wmma::load_matrix_sync(fb, b + (size_t)l * n + left, n);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(c + top * n + left, fc, n, wmma::mem_row_major);
}
