#include <mma.h>
using namespace nvcuda;

extern "C" __global__ void k(const float* a, const float* b, float* c, int k, int n) {
  const size_t top = blockIdx.y * 16, left = blockIdx.x * 16;
  wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 8, float> fc;
  wmma::fill_fragment(fc, 0.f);
  for (int l = 0; l < k; l += 8) {
    wmma::load_matrix_sync(fa, a + top * k + l, k);
    wmma::load_matrix_sync(fb, b + (size_t)l * n + left, n);
    for (int e = 0; e < fa.num_elements; ++e) fa.x[e] = wmma::__float_to_tf32(fa.x[e]);
    for (int e = 0; e < fb.num_elements; ++e) fb.x[e] = wmma::__float_to_tf32(fb.x[e]);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(c + top * n + left, fc, n, wmma::mem_row_major);
}
