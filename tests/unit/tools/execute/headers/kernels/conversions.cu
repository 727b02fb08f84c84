// Conversions: float and double to integers of 32 and 64 bits in four rounding modes with saturation, back, and bit casts.
extern "C" __global__ void conversions(const double* x, int* i, unsigned* u, long long* l, unsigned long long* w, float* f,
                                       double* d) {
    int t = threadIdx.x;
    double v = x[t];
    float g = (float)v;
    i[t] = __float2int_rn(g); i[32 + t] = __float2int_rz(g); i[64 + t] = __float2int_ru(g); i[96 + t] = __float2int_rd(g);
    i[128 + t] = __double2int_rn(v); i[160 + t] = __double2int_rz(v); i[192 + t] = __double2int_ru(v); i[224 + t] = __double2int_rd(v);
    u[t] = __float2uint_rn(g); u[32 + t] = __float2uint_rz(g); u[64 + t] = __float2uint_ru(g); u[96 + t] = __float2uint_rd(g);
    u[128 + t] = __double2uint_rn(v); u[160 + t] = __double2uint_rz(v);
    l[t] = __float2ll_rn(g); l[32 + t] = __float2ll_rz(g); l[64 + t] = __double2ll_ru(v); l[96 + t] = __double2ll_rd(v);
    w[t] = __float2ull_rn(g); w[32 + t] = __double2ull_rz(v);
    f[t] = __int2float_rn(i[32 + t]); f[32 + t] = __int2float_ru(i[32 + t]); f[64 + t] = __uint2float_rd(u[32 + t]);
    f[96 + t] = __ll2float_rz(l[32 + t]); f[128 + t] = __double2float_rn(v); f[160 + t] = __double2float_ru(v);
    f[192 + t] = __double2float_rd(v); f[224 + t] = __double2float_rz(v);
    f[256 + t] = __int_as_float(__float_as_int(g) ^ 0x00000001);
    d[t] = __int2double_rn(i[t]); d[32 + t] = __ll2double_rn(l[t]); d[64 + t] = __longlong_as_double(__double_as_longlong(v));
    d[96 + t] = __hiloint2double(__double2hiint(v), __double2loint(v));
}
