// cuda::barrier: tokens, arrive_and_wait, arrive_and_drop; cuda::pipeline of one thread, two stages.
#include <cooperative_groups.h>
#include <cuda/barrier>
#include <cuda/pipeline>
extern "C" __global__ void barrier_kinds(const int* x, int* y) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int room[64], stage[2][64];
    int t = threadIdx.x;
    if (t == 0) init(&bar, blockDim.x);
    __syncthreads();
    room[t] = x[t];
    bar.arrive_and_wait();
    int v = room[63 - t];
    auto token = bar.arrive();
    v += 1;
    bar.wait(cuda::std::move(token));
    room[t] = v;
    if (t >= 32) {
        bar.arrive_and_drop();
    } else {
        bar.arrive_and_wait();
        v += room[t + 32];
        bar.arrive_and_wait();
    }
    auto pipe = cuda::make_pipeline();
    for (int k = 0; k < 2; ++k) {
        pipe.producer_acquire();
        cuda::memcpy_async(&stage[k][t], &x[64 * k + t], cuda::aligned_size_t<4>(4), pipe);
        pipe.producer_commit();
    }
    int sum = 0;
    for (int k = 0; k < 2; ++k) {
        pipe.consumer_wait();
        sum += stage[k][t];
        pipe.consumer_release();
    }
    y[t] = v;
    y[64 + t] = sum;
}
