// Tensor cores: bfloat16, tf32, double, unsigned bytes, half accumulators; the shapes 32x8 and 8x32.
#include <mma.h>
using namespace nvcuda;
template <int M, int N, int K, class T, class Acc, class Storage>
__device__ void product(const Storage* a, const Storage* b, Acc* c) {
    wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, T, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, M, N, K, Acc> fc;
    wmma::fill_fragment(fc, Acc(0));
    wmma::load_matrix_sync(fa, a, K);
    wmma::load_matrix_sync(fb, b, N);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, N, wmma::mem_row_major);
}
extern "C" __global__ void wmma_shapes(const __half* h, const __nv_bfloat16* b, const float* f, const double* d, const unsigned char* u,
                                       float* wide, float* tall, __half* narrow, float* brain, float* tf, double* twice, int* bytes) {
    product<32, 8, 16, __half, float>(h, h, tall);
    product<8, 32, 16, __half, float>(h, h, wide);
    product<16, 16, 16, __half, __half>(h, h, narrow);
    product<16, 16, 16, __nv_bfloat16, float>(b, b, brain);
    product<16, 16, 8, wmma::precision::tf32, float>(f, f, tf);
    product<8, 8, 4, double, double>(d, d, twice);
    product<16, 16, 16, unsigned char, int>(u, u, bytes);
}
