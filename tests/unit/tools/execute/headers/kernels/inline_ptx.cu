// Inline PTX from the table: laneid, lop3, prmt, mad.hi, shfl with a predicate, cached loads.
extern "C" __global__ void inline_ptx(const unsigned* x, unsigned* y) {
    unsigned lane, v, mixed, high, shuffled, in_range;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(v) : "l"(x + lane));
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(mixed) : "r"(v), "r"(lane), "r"(0x55u));
    asm("mad.hi.u32 %0, %1, %2, %3;" : "=r"(high) : "r"(v), "r"(0x9e3779b9u), "r"(1u));
    asm volatile(
        "{\n\t"
        ".reg .pred p;\n\t"
        "shfl.sync.up.b32 %0|p, %2, 1, 0x0, 0xffffffff;\n\t"
        "selp.u32 %1, 1, 0, p;\n\t"
        "}"
        : "=r"(shuffled), "=r"(in_range)
        : "r"(mixed));
    y[lane] = shuffled + high + in_range * 1000u;
}
