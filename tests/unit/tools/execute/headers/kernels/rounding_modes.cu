// Directed rounding and saturating conversions.
extern "C" __global__ void rounding_modes(const float* a, const float* b, float* lower, float* upper, int* near, unsigned* sat) {
    int i = threadIdx.x;
    lower[i] = __fadd_rd(a[i], b[i]);
    upper[i] = __fmul_ru(a[i], b[i]);
    near[i] = __float2int_rn(a[i]);
    sat[i] = __float2uint_rz(a[i] * 1e9f);
}
