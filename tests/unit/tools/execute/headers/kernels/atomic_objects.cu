// cuda::atomic in shared memory and as a global, scopes of thread, block, device and system; every operation of integers and floats.
#include <cuda/atomic>
__device__ cuda::atomic<unsigned, cuda::thread_scope_device> arrivals{0};
extern "C" __global__ void atomic_objects(const int* x, int* y, float* f, unsigned long long* w) {
    __shared__ cuda::atomic<int, cuda::thread_scope_block> sum;
    int t = threadIdx.x, v = x[t];
    if (t == 0) new (&sum) cuda::atomic<int, cuda::thread_scope_block>(5);
    __syncthreads();
    sum.fetch_add(v, cuda::memory_order_relaxed);
    cuda::atomic_ref<int, cuda::thread_scope_system> bits(y[1]), low(y[2]), high(y[3]), swapped(y[4]);
    bits.fetch_or(1 << t);
    low.fetch_min(v);
    high.fetch_max(v);
    swapped.exchange(9);
    cuda::atomic_ref<float, cuda::thread_scope_device> real(f[0]);
    real.fetch_add(0.5f);
    cuda::atomic_ref<unsigned long long, cuda::thread_scope_device> wide(w[0]);
    wide.fetch_add(1ull << 35);
    cuda::atomic_ref<int, cuda::thread_scope_device> product(y[5]);
    int seen = product.load();
    while (!product.compare_exchange_weak(seen, seen + 3)) {}
    arrivals++;
    arrivals.fetch_add(1u);
    __syncthreads();
    if (t == 0) {
        y[0] = sum.load();
        y[6] = (int)arrivals.load(cuda::memory_order_acquire);
        sum.store(1);
        y[7] = sum--;
    }
}
