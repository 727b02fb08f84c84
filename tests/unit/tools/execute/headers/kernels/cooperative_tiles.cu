// Cooperative groups: nested tiles, shuffles, votes, reduce and scan; tiles convert to the short type.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
__device__ int tile_sum(const cg::thread_block_tile<8>& tile, int v) { return cg::reduce(tile, v, cg::plus<int>()); }
extern "C" __global__ void cooperative_tiles(const int* x, int* sums, int* scans, unsigned* votes, int* largest) {
    cg::thread_block block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    auto tile = cg::tiled_partition<8>(warp);
    auto of_block = cg::tiled_partition<8>(block);
    int i = block.thread_rank();
    sums[i] = tile_sum(of_block, x[i]);
    scans[i] = cg::exclusive_scan(tile, x[i], cg::plus<int>());
    votes[i] = tile.ballot(x[i] > 0) + 1000u * tile.meta_group_rank();
    largest[i] = cg::reduce(warp, tile.shfl_xor(x[i], 1), cg::greater<int>());
    block.sync();
}
