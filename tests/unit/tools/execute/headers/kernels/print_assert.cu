// printf and assert on the device, clocks, sleeping, and a trap that is never reached.
#include <assert.h>
#include <stdio.h>
extern "C" __global__ void print_assert(const int* x, int* y) {
    int t = threadIdx.x;
    long long began = clock64();
    if (t == 0) printf("value %d %s %f %llu\n", x[0], "text", 1.5, 1ull << 40);
    assert(x[t] > -1000);
    if (x[t] > 1000) __trap();
    __nanosleep(20);
    y[t] = x[t] + (clock64() >= began ? 1 : 0) + (clock() == 0 ? 0 : 1);
}
