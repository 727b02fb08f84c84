// CUB: logical warps of 16 threads, reduction with an own operator, inclusive scan.
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
struct Larger {
    __device__ int operator()(int a, int b) const { return a > b ? a : b; }
};
extern "C" __global__ void cub_warp_primitives(const int* x, int* largest, int* scan) {
    typedef cub::WarpReduce<int, 16> Reduce;
    typedef cub::WarpScan<int> Scan;
    __shared__ typename Reduce::TempStorage reduce[4];
    __shared__ typename Scan::TempStorage scans[2];
    int i = threadIdx.x;
    int v = Reduce(reduce[i / 16]).Reduce(x[i], Larger());
    if (i % 16 == 0) largest[i / 16] = v;
    Scan(scans[i / 32]).InclusiveSum(x[i], scan[i]);
}
