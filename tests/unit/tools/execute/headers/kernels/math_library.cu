// The math library in float and double: roots, powers, logarithms, trigonometry, special functions, rounding, and fast forms.
#define BOTH(n, F, arg) f[(n) * 32 + t] = F##f((float)(arg)); d[(n) * 32 + t] = F(arg)
extern "C" __global__ void math_library(const double* x, float* f, double* d, float* fast) {
    int t = threadIdx.x;
    double v = x[t], p = v * v + 0.25, u = v / 8.0;
    BOTH(0, sqrt, p); BOTH(1, cbrt, v); BOTH(2, exp, v); BOTH(3, exp2, v); BOTH(4, expm1, v); BOTH(5, log, p);
    BOTH(6, log2, p); BOTH(7, log10, p); BOTH(8, log1p, p); BOTH(9, sin, v); BOTH(10, cos, v); BOTH(11, tan, u);
    BOTH(12, asin, u); BOTH(13, acos, u); BOTH(14, atan, v); BOTH(15, sinh, v); BOTH(16, cosh, v); BOTH(17, tanh, v);
    BOTH(18, asinh, v); BOTH(19, acosh, p + 1.0); BOTH(20, atanh, u); BOTH(21, erf, v); BOTH(22, erfc, v);
    BOTH(23, lgamma, p); BOTH(24, tgamma, p); BOTH(25, floor, v); BOTH(26, ceil, v); BOTH(27, trunc, v);
    BOTH(28, rint, v); BOTH(29, round, v); BOTH(30, fabs, v); BOTH(31, rsqrt, p); BOTH(32, exp10, v); BOTH(33, sinpi, v);
    BOTH(34, cospi, v); BOTH(35, erfinv, u); BOTH(36, normcdf, v); BOTH(37, erfcx, v); BOTH(38, rcbrt, p); BOTH(39, logb, p);
    f[40 * 32 + t] = powf(p, v); d[40 * 32 + t] = pow(p, v);
    f[41 * 32 + t] = atan2f(v, p); d[41 * 32 + t] = atan2(v, p);
    f[42 * 32 + t] = hypotf(v, p); d[42 * 32 + t] = hypot(v, p);
    f[43 * 32 + t] = fmodf(v, p); d[43 * 32 + t] = fmod(v, p);
    f[44 * 32 + t] = fmaf(v, p, u); d[44 * 32 + t] = fma(v, p, u);
    f[45 * 32 + t] = fminf(v, u); d[45 * 32 + t] = fmax(v, u);
    f[46 * 32 + t] = copysignf(p, v); d[46 * 32 + t] = copysign(p, v);
    f[47 * 32 + t] = ldexpf(v, 3); d[47 * 32 + t] = scalbn(v, -2);
    f[48 * 32 + t] = norm3df(v, p, u); d[48 * 32 + t] = norm3d(v, p, u);
    f[49 * 32 + t] = fdimf(v, u); d[49 * 32 + t] = fdim(v, u);
    double s, c;
    sincos(v, &s, &c);
    d[50 * 32 + t] = s + 2 * c;
    int e;
    f[50 * 32 + t] = frexpf((float)p, &e) + e;
    d[51 * 32 + t] = isnan(v) + 2 * isinf(v) + 4 * isfinite(v) + 8 * signbit(v);
    f[51 * 32 + t] = (float)(lrintf((float)v) + llround(v) + ilogbf((float)p));
    float g = (float)v, q = (float)p;
    fast[t] = __expf(g); fast[32 + t] = __logf(q); fast[64 + t] = __sinf(g); fast[96 + t] = __cosf(g);
    fast[128 + t] = __powf(q, 2.0f); fast[160 + t] = __fdividef(g, q); fast[192 + t] = __frcp_rn(q);
    fast[224 + t] = __fsqrt_rn(q); fast[256 + t] = __frsqrt_rn(q); fast[288 + t] = __tanf(g / 8); fast[320 + t] = __exp10f(g);
    fast[352 + t] = __log2f(q); fast[384 + t] = __log10f(q); fast[416 + t] = __saturatef(g); fast[448 + t] = __fmaf_rn(g, q, g);
}
