// A cooperative launch: the whole grid meets.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void grid_sync(const int* x, int* partial, int* y) {
    cg::grid_group grid = cg::this_grid();
    partial[grid.thread_rank()] = 2 * x[grid.thread_rank()];
    grid.sync();
    y[grid.thread_rank()] = partial[grid.size() - 1 - grid.thread_rank()];
}
