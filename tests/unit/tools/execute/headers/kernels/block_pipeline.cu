// cuda::pipeline shared by a block, two stages.
#include <cooperative_groups.h>
#include <cuda/pipeline>
extern "C" __global__ void block_pipeline(const int* x, int* y, int batches) {
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    __shared__ int stage[2][64];
    auto block = cooperative_groups::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    pipe.producer_acquire();
    cuda::memcpy_async(block, stage[0], x, sizeof(int) * 64, pipe);
    pipe.producer_commit();
    for (int b = 0; b < batches; ++b) {
        if (b + 1 < batches) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, stage[(b + 1) % 2], x + (b + 1) * 64, sizeof(int) * 64, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        y[b * 64 + threadIdx.x] = stage[b % 2][63 - threadIdx.x];
        pipe.consumer_release();
    }
}
