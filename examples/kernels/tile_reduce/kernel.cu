#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

// Sixteen lanes a row: short rows would leave half of a warp idle.
extern "C" __global__ void extent(const float* __restrict__ x, float* __restrict__ lo, float* __restrict__ hi, int rows,
                                  int cols) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  const int row = blockIdx.x * 16 + tile.meta_group_rank();
  if (row >= rows) return;  // the whole tile leaves
  const float* r = x + (size_t)row * cols;
  float least = INFINITY, most = -INFINITY;
  for (int j = tile.thread_rank(); j < cols; j += tile.size()) {
    least = fminf(least, r[j]);
    most = fmaxf(most, r[j]);
  }
  least = cg::reduce(tile, least, cg::less<float>());
  most = cg::reduce(tile, most, cg::greater<float>());
  if (tile.thread_rank() == 0) {
    lo[row] = least;
    hi[row] = most;
  }
}
