// Atomics of every type and scope: add, sub, exch, min, max, inc, dec, cas, and, or, xor, on integers and floats.
#define EACH_SCOPE(F, p, ...) F(p, __VA_ARGS__); F##_block(p + 1, __VA_ARGS__); F##_system(p + 2, __VA_ARGS__)
template <class T>
__device__ void integers(T* p, T v, T bit) {
    EACH_SCOPE(atomicAdd, p, v);
    EACH_SCOPE(atomicExch, p + 3, T(77));
    EACH_SCOPE(atomicMin, p + 6, v);
    EACH_SCOPE(atomicMax, p + 9, v);
    EACH_SCOPE(atomicAnd, p + 12, T(~bit));
    EACH_SCOPE(atomicOr, p + 15, bit);
    EACH_SCOPE(atomicXor, p + 18, bit);
    for (T seen = p[21], old;; seen = old) {
        old = atomicCAS(p + 21, seen, T(seen + 2));
        if (old == seen) break;
    }
    for (T seen = p[22], old;; seen = old) {
        old = atomicCAS_block(p + 22, seen, T(seen + 3));
        if (old == seen) break;
    }
    for (T seen = p[23], old;; seen = old) {
        old = atomicCAS_system(p + 23, seen, T(seen + 4));
        if (old == seen) break;
    }
}
extern "C" __global__ void every_atomic(const int* x, int* i, unsigned* u, unsigned long long* w, long long* s, float* f,
                                        double* d) {
    int v = x[threadIdx.x];
    integers<int>(i, v, 1 << (threadIdx.x & 7));
    EACH_SCOPE(atomicSub, i + 24, v);
    integers<unsigned>(u, (unsigned)(v + 1000), 1u << (threadIdx.x & 31));
    EACH_SCOPE(atomicSub, u + 24, 3u);
    EACH_SCOPE(atomicInc, u + 27, 9u);
    EACH_SCOPE(atomicDec, u + 30, 9u);
    integers<unsigned long long>(w, (unsigned long long)(v + 1000) << 32, 1ull << threadIdx.x);
    EACH_SCOPE(atomicMin, s, (long long)v * 1000000007ll);
    EACH_SCOPE(atomicMax, s + 3, (long long)v * 1000000007ll);
    EACH_SCOPE(atomicAdd, f, (float)v);
    EACH_SCOPE(atomicExch, f + 3, 2.5f);
    EACH_SCOPE(atomicAdd, d, v * 0.25);
}
