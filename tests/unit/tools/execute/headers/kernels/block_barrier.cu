// cuda::barrier with split arrive and wait, and cuda::memcpy_async that completes on it.
#include <cooperative_groups.h>
#include <cuda/barrier>
extern "C" __global__ void block_barrier(const int* x, int* y) {
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ barrier bar;
    __shared__ int tile[64], doubled[64];
    auto block = cooperative_groups::this_thread_block();
    if (block.thread_rank() == 0) init(&bar, block.size());
    block.sync();
    cuda::memcpy_async(block, tile, x, sizeof(int) * 64, bar);
    bar.arrive_and_wait();
    doubled[threadIdx.x] = 2 * tile[63 - threadIdx.x];
    barrier::arrival_token token = bar.arrive();
    bar.wait(static_cast<barrier::arrival_token&&>(token));
    y[threadIdx.x] = doubled[threadIdx.x ^ 1];
}
