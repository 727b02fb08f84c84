// Half precision: operators, fma, math functions, minimum with NaN rules, conversions.
#include <cuda_fp16.h>
extern "C" __global__ void half_arithmetic(const __half* x, __half* y, int* truncated, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __half v = x[i];
    __half w = __hfma(v, __float2half(2.0f), __half(1.0f));
    w += hsqrt(__habs(v)) / __half(4);
    if (w > v) w = __hmax(w, -v);
    float widened = w;
    y[i] = __float2half_rn(widened);
    truncated[i] = __half2int_rz(w);
}
