#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void row_kl(const float* __restrict__ p, const float* __restrict__ q, float* __restrict__ t, int rows,
                                  int cols) {
  const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
  const int row = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
  if (row >= rows) return;
  float sum = 0.f;
  for (int j = warp.thread_rank(); j < cols; j += 32) {
    const size_t k = (size_t)row * cols + j;
    if (p[k] > 0.f) sum = fmaf(p[k], logf(p[k] / q[k]), sum);  // 0 log 0 = 0
  }
  sum = cg::reduce(warp, sum, cg::plus<float>());
  if (warp.thread_rank() == 0) t[row] = sum;
}

extern "C" __global__ void mean_kl(const float* __restrict__ t, float* __restrict__ kl, int rows) {
  __shared__ double s[512];
  double sum = 0.0;
  for (int i = threadIdx.x; i < rows; i += 512) sum += t[i];
  s[threadIdx.x] = sum;
  for (int d = 256; d > 0; d >>= 1) {
    __syncthreads();
    if (threadIdx.x < d) s[threadIdx.x] += s[threadIdx.x + d];
  }
  if (threadIdx.x == 0) *kl = (float)(s[0] / rows);
}
