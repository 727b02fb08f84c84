// CUB: loads and stores of a warp, loads with cache modifiers; barriers in C, __mbarrier_*; function objects of cuda.
#include <cub/cub.cuh>
#include <cuda/functional>
#include <cuda/std/functional>
#include <cuda_awbarrier_primitives.h>
extern "C" __global__ void small_primitives(const int* x, int* y) {
    using Load = cub::WarpLoad<int, 4, cub::WARP_LOAD_TRANSPOSE>;
    using Store = cub::WarpStore<int, 4, cub::WARP_STORE_STRIPED>;
    __shared__ typename Load::TempStorage load[2];
    __shared__ typename Store::TempStorage store[2];
    __shared__ __mbarrier_t barrier;
    __shared__ int s[64];
    int t = threadIdx.x, warp = t / 32, items[4];
    Load(load[warp]).Load(x + warp * 128, items, 100, -1);
    Store(store[warp]).Store(y + warp * 128, items);
    if (t == 0) __mbarrier_init(&barrier, 64);
    s[t] = cub::ThreadLoad<cub::LOAD_LDG>(x + t);
    __syncthreads();
    int sum = 0;
    for (int round = 0; round < 2; ++round) {
        __mbarrier_token_t token = __mbarrier_arrive(&barrier);
        while (!__mbarrier_test_wait(&barrier, token)) {}
        sum += s[63 - t] + round;
    }
    auto twice = cuda::proclaim_return_type<int>([](int v) { return 2 * v; });
    cub::ThreadStore<cub::STORE_CG>(y + 256 + t, cuda::std::invoke(twice, sum) + cuda::maximum<>{}(s[t], 3));
}
