// cuda::atomic_ref: fetch_add, fetch_max, compare-and-swap loops.
#include <cuda/atomic>
extern "C" __global__ void atomic_references(const int* x, int* sum, int* largest, int* product) {
    cuda::atomic_ref<int, cuda::thread_scope_device> total(*sum);
    total.fetch_add(x[threadIdx.x], cuda::std::memory_order_relaxed);
    cuda::atomic_ref<int, cuda::thread_scope_device>(*largest).fetch_max(x[threadIdx.x]);
    cuda::atomic_ref<int, cuda::thread_scope_device> p(*product);
    int seen = p.load();
    while (!p.compare_exchange_weak(seen, seen * 3)) {}
}
