// cooperative_groups::memcpy_async into shared memory.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;
extern "C" __global__ void group_memcpy_async(const float* x, float* y) {
    __shared__ alignas(16) float tile[128];
    cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, tile, x + blockIdx.x * 128, sizeof(float) * 128);
    cg::wait(block);
    y[blockIdx.x * 128 + threadIdx.x] = tile[127 - threadIdx.x];
}
