// bfloat16: operators, fma with relu, conversions in every rounding mode, atomicAdd.
#include <cuda_bf16.h>
extern "C" __global__ void bfloat16_arithmetic(const float* x, __nv_bfloat16* y, __nv_bfloat16* up, __nv_bfloat16* down, __nv_bfloat16* sum) {
    int i = threadIdx.x;
    __nv_bfloat16 v = __float2bfloat16(x[i]);
    y[i] = __hfma_relu(v, v, __nv_bfloat16(-1.0f));
    up[i] = __float2bfloat16_ru(x[i]);
    down[i] = __float2bfloat16_rd(x[i]);
    atomicAdd(sum, __nv_bfloat16(1.0f));
}
