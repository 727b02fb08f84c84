// Cooperative groups: tiles of 1 to 32, every operator of reduce, both scans, generic groups, invoke_one, coordinates.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
template <int Size>
__device__ int tile(cg::thread_block block, int v) {
    auto part = cg::tiled_partition<Size>(block);
    part.sync();
    int sum = cg::reduce(part, v, cg::plus<int>());
    return sum + (int)part.thread_rank() * 1000 + (int)part.size() * 100000;
}
__device__ unsigned anyone(cg::thread_group g) {
    g.sync();
    return g.thread_rank() + 100 * g.size();
}
extern "C" __global__ void group_operators(const int* x, int* tiles, int* folds, int* scans, unsigned* groups, unsigned* invoked,
                                           float* floats) {
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    int t = (int)block.thread_rank(), v = x[t];
    tiles[t] = tile<1>(block, v);
    tiles[64 + t] = tile<2>(block, v);
    tiles[128 + t] = tile<4>(block, v);
    tiles[192 + t] = tile<8>(block, v);
    tiles[256 + t] = tile<16>(block, v);
    tiles[320 + t] = tile<32>(block, v);
    folds[t] = cg::reduce(warp, v, cg::less<int>());
    folds[64 + t] = cg::reduce(warp, v, cg::greater<int>());
    folds[128 + t] = cg::reduce(warp, v | 0xff00, cg::bit_and<int>());
    folds[192 + t] = cg::reduce(warp, v, cg::bit_or<int>());
    folds[256 + t] = cg::reduce(warp, v, cg::bit_xor<int>());
    folds[320 + t] = cg::reduce(warp, v, [](int a, int b) { return a > b ? a : b; });
    scans[t] = cg::inclusive_scan(warp, v);
    scans[64 + t] = cg::exclusive_scan(warp, v);
    scans[128 + t] = cg::inclusive_scan(warp, v, cg::greater<int>());
    scans[192 + t] = cg::exclusive_scan(warp, v, cg::bit_xor<int>());
    floats[t] = cg::reduce(warp, v * 0.5f, cg::plus<float>());
    groups[t] = anyone(block);
    groups[64 + t] = anyone(warp);
    groups[128 + t] = block.group_index().x + 10 * block.thread_index().y + 100 * block.dim_threads().y;
    cg::invoke_one(warp, [&] { invoked[t / 32] = 7u + (unsigned)warp.meta_group_rank() + 10u * warp.meta_group_size(); });
    if (v & 1) {
        auto odd = cg::coalesced_threads();
        int count = cg::reduce(odd, 1, cg::plus<int>());
        groups[192 + t] = (unsigned)(count + 100 * cg::exclusive_scan(odd, 1));
    } else {
        groups[192 + t] = 0;
    }
    cg::sync(block);
}
