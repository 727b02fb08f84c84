#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void normalise(const float* __restrict__ x, float* __restrict__ y, float* part, long long n) {
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();
  __shared__ float s[256];
  float sum = 0.f;
  for (long long i = grid.thread_rank(); i < n; i += grid.size()) sum += fabsf(x[i]);
  s[block.thread_rank()] = sum;
  block.sync();
  for (int d = 128; d > 0; d >>= 1) {
    if (block.thread_rank() < d) s[block.thread_rank()] += s[block.thread_rank() + d];
    block.sync();
  }
  if (block.thread_rank() == 0) part[blockIdx.x] = s[0];
  grid.sync();  // every partial sum is visible to every block from here on
  float total = 0.f;
  for (int b = 0; b < gridDim.x; ++b) total += part[b];
  for (long long i = grid.thread_rank(); i < n; i += grid.size()) y[i] = x[i] / total;
}
