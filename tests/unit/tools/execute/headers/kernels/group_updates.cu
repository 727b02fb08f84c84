// Cooperative groups: reductions and scans that update an atomic object, a group of one thread.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
namespace cg = cooperative_groups;
extern "C" __global__ void group_updates(const int* x, int* y, int* totals) {
    int t = threadIdx.x;
    if (t < 3) totals[t] = 0;
    __syncthreads();
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    cuda::atomic_ref<int, cuda::thread_scope_device> sum(totals[0]), most(totals[1]), running(totals[2]);
    cg::reduce_update_async(warp, sum, x[t], cg::plus<int>());
    cg::reduce_store_async(warp, most, x[t], cg::greater<int>());
    y[t] = cg::exclusive_scan_update(warp, running, x[t], cg::plus<int>());
    y[32 + t] = cg::inclusive_scan_update(warp, running, x[t], cg::plus<int>());
    y[64 + t] = static_cast<int>(cg::this_thread().size() + cg::this_thread().thread_rank());
}
