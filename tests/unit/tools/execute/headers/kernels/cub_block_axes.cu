// CUB: block primitives over a block of two axes, and warp primitives: tails, heads, broadcast, scans with a start.
#include <cub/cub.cuh>
extern "C" __global__ void cub_block_axes(const int* x, int* sums, int* scans, int* warps) {
    typedef cub::BlockReduce<int, 16, cub::BLOCK_REDUCE_WARP_REDUCTIONS, 4> Reduce;
    typedef cub::BlockScan<int, 16, cub::BLOCK_SCAN_RAKING, 4> Scan;
    typedef cub::WarpReduce<int> Warp;
    typedef cub::WarpScan<int> WarpScan;
    __shared__ typename Reduce::TempStorage reduce;
    __shared__ typename Scan::TempStorage scan;
    __shared__ typename Warp::TempStorage warp[2];
    __shared__ typename WarpScan::TempStorage warp_scan[2];
    int t = threadIdx.y * 16 + threadIdx.x, v = x[t], out;
    int sum = Reduce(reduce).Sum(v);
    if (t == 0) sums[0] = sum;
    Scan(scan).InclusiveSum(v, out);
    scans[t] = out;
    WarpScan(warp_scan[t / 32]).ExclusiveScan(v, out, 7, [](int a, int b) { return a > b ? a : b; });
    scans[64 + t] = out;
    int most = Warp(warp[t / 32]).Reduce(v, [](int a, int b) { return a > b ? a : b; });
    int head = Warp(warp[t / 32]).HeadSegmentedSum(v, t % 5 == 0);
    warps[t] = t % 32 == 0 ? most : 0;
    warps[64 + t] = t % 5 == 0 ? head : 0;
    warps[128 + t] = WarpScan(warp_scan[t / 32]).Broadcast(v, 3);
}
