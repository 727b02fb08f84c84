// Groups made at run time: coalesced_threads, binary and labeled partitions.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void coalesced_and_labels(const int* x, int* rank, int* size) {
    int i = threadIdx.x;
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    auto same = cg::labeled_partition(warp, x[i] % 3);
    size[i] = same.size();
    rank[i] = -1;
    if (x[i] % 2 == 0) {
        cg::coalesced_group active = cg::coalesced_threads();
        rank[i] = active.thread_rank() + 100 * cg::reduce(active, 1, cg::plus<int>());
    }
}
