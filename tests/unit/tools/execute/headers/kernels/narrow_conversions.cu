// Half and bfloat16 to and from every integer type and rounding mode, cached loads and shuffles of them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
extern "C" __global__ void narrow_conversions(const float* x, const __half* h, const __nv_bfloat16* b, int* i, float* f) {
    int t = threadIdx.x;
    __half v = __ldg(h + t);
    __nv_bfloat16 u = __ldg(b + t);
    i[t] = __half2int_rn(v); i[32 + t] = __half2int_rz(v); i[64 + t] = __half2int_ru(v); i[96 + t] = __half2int_rd(v);
    i[128 + t] = (int)__half2uint_rz(__habs(v)); i[160 + t] = __half2short_rn(v); i[192 + t] = (int)__half2ll_rd(v);
    i[224 + t] = __bfloat162int_rn(u); i[256 + t] = __bfloat162int_rd(u); i[288 + t] = (int)__bfloat162uint_ru(__habs(u));
    i[320 + t] = __half2ushort_rn(__habs(v)); i[352 + t] = (int)__half2ull_rz(__habs(v));
    f[t] = __half2float(__int2half_rn(t * 1025)); f[32 + t] = __half2float(__float2half_rz(x[t]));
    f[64 + t] = __half2float(__float2half_ru(x[t])); f[96 + t] = __half2float(__float2half_rd(x[t]));
    f[128 + t] = __half2float(__uint2half_rz(t * 1025u)); f[160 + t] = __bfloat162float(__int2bfloat16_rn(t * 1025));
    f[192 + t] = __bfloat162float(__float2bfloat16_rz(x[t])); f[224 + t] = __half2float(__double2half((double)x[t]));
    f[256 + t] = __half2float(__shfl_xor_sync(0xffffffffu, v, 1)); f[288 + t] = __bfloat162float(__shfl_down_sync(0xffffffffu, u, 1));
    f[320 + t] = __half2float(__ldcs(h + t)) + __bfloat162float(__ldcg(b + t));
}
