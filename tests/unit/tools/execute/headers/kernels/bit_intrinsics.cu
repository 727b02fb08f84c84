// Bits: clz, ffs, popc, brev, byte_perm, funnel shifts, high products.
extern "C" __global__ void bit_intrinsics(const unsigned* x, unsigned* y) {
    int i = threadIdx.x;
    unsigned v = x[i];
    unsigned r = __clz(v) + 100u * __popc(v) + 10000u * __ffs(v);
    r ^= __brev(v) ^ __byte_perm(v, ~v, 0x6420) ^ __funnelshift_l(v, 0x12345678u, i) ^ __umulhi(v, 0x9e3779b9u);
    y[i] = r;
}
