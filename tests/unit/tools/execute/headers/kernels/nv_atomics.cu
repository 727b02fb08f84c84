// The compiler's atomics, __nv_atomic_*, with orders and scopes; compare-and-swap and exchange of sixteen bytes.
extern "C" __global__ void nv_atomics(const int* x, int* y, float* f, unsigned long long* w) {
    int t = threadIdx.x;
    __shared__ int s[8];
    __shared__ __align__(16) ulonglong2 pair;
    if (t < 8) s[t] = 0;
    if (t == 0) { pair = make_ulonglong2(0, 0); f[0] = 0.0f; }
    __syncthreads();
    __nv_atomic_fetch_add(&s[0], x[t], __NV_ATOMIC_ACQ_REL, __NV_THREAD_SCOPE_BLOCK);
    __nv_atomic_fetch_max(&s[1], x[t], __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    __nv_atomic_min(&s[2], x[t], __NV_ATOMIC_RELAXED);
    __nv_atomic_or(&s[3], 1 << t, __NV_ATOMIC_SEQ_CST, __NV_THREAD_SCOPE_SYSTEM);
    __nv_atomic_add(f, 0.5f, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    if (t == 5) __nv_atomic_store_n(&s[4], 9, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_BLOCK);
    int seen = __nv_atomic_load_n(&s[5], __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_BLOCK);
    while (!__nv_atomic_compare_exchange_n(&s[5], &seen, seen + 2, true, __NV_ATOMIC_ACQ_REL, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_BLOCK)) {}
    for (ulonglong2 old = make_ulonglong2(0, 0);;) {
        ulonglong2 was = atomicCAS(&pair, old, make_ulonglong2(old.x + 1, old.y + t));
        if (was.x == old.x && was.y == old.y) break;
        old = was;
    }
    __syncthreads();
    if (t < 6) y[t] = __nv_atomic_exchange_n(&s[t], 0, __NV_ATOMIC_RELAXED);
    if (t == 0) {
        ulonglong2 was = atomicExch_block(&pair, make_ulonglong2(7, 8));
        w[0] = was.x; w[1] = was.y; w[2] = pair.x;
    }
}
