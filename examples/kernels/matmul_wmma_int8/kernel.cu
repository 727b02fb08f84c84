#include <mma.h>
using namespace nvcuda;

// A row of a tile is 16 bytes, so tiles inside the matrices start at multiples of 16, and wmma wants 32: each tile is
// copied to aligned shared memory first, one 8-byte word a lane.
extern "C" __global__ void matmul(const int8_t* __restrict__ a, const int8_t* __restrict__ b, int* __restrict__ c, int k,
                                  int n) {
  __shared__ __align__(32) signed char sa[256];
  __shared__ __align__(32) signed char sb[256];
  const size_t top = blockIdx.y * 16, left = blockIdx.x * 16;
  const int r = threadIdx.x / 2, h = threadIdx.x % 2 * 8;
  wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, int> fc;
  wmma::fill_fragment(fc, 0);
  for (int l = 0; l < k; l += 16) {
    *reinterpret_cast<int2*>(sa + r * 16 + h) = *reinterpret_cast<const int2*>(a + (top + r) * k + l + h);
    *reinterpret_cast<int2*>(sb + r * 16 + h) = *reinterpret_cast<const int2*>(b + (size_t)(l + r) * n + left + h);
    __syncwarp();
    wmma::load_matrix_sync(fa, sa, 16);
    wmma::load_matrix_sync(fb, sb, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    __syncwarp();
  }
  wmma::store_matrix_sync(c + top * n + left, fc, n, wmma::mem_row_major);
}
