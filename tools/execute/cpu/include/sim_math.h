// The math library of the device language.
//
// Single-precision intrinsics (`__expf`, ...) give the accurate function: a GPU's are within a few units in the last
// place of it. Conversions, rounding modes and bit operations are in sim_bits.h.
#pragma once
#include <math.h>
#include <stdlib.h>

#include "sim_core.h"

// ---- constants ----
#define CUDART_INF_F __builtin_inff()
#define CUDART_NAN_F __builtin_nanf("")
#define CUDART_INF __builtin_inf()
#define CUDART_NAN __builtin_nan("")
#define CUDART_PI_F 3.141592654f
#define CUDART_PIO2_F 1.570796327f
#define CUDART_2_OVER_PI_F 0.636619772f
#define CUDART_SQRT_TWO_F 1.414213562f
#define CUDART_SQRT_HALF_F 0.707106781f
#define CUDART_L2E_F 1.442695041f
#define CUDART_LN2_F 0.693147181f
#define CUDART_MAX_NORMAL_F 3.402823466e38f
#define CUDART_MIN_DENORM_F 1.401298464e-45f
#define CUDART_ZERO_F 0.0f
#define CUDART_ONE_F 1.0f
#define CUDART_PI 3.1415926535897931e+0
#define CUDART_SQRT_TWO 1.4142135623730951e+0
#define CUDART_LN2 6.9314718055994529e-1
#define CUDART_L2E 1.4426950408889634e+0

// ---- smallest and largest: a NaN loses against a number, as in CUDA ----
namespace sim {
template <class A, class B>
using both_arithmetic = typename std::enable_if<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value,
                                                typename std::common_type<A, B>::type>::type;
template <class T> SIM_INLINE T smaller(T a, T b) { return (a < b || b != b) ? a : b; }
template <class T> SIM_INLINE T larger(T a, T b) { return (a > b || b != b) ? a : b; }
}  // namespace sim
template <class A, class B> SIM_INLINE sim::both_arithmetic<A, B> min(A a, B b) {
  return sim::smaller<sim::both_arithmetic<A, B>>(a, b);
}
template <class A, class B> SIM_INLINE sim::both_arithmetic<A, B> max(A a, B b) {
  return sim::larger<sim::both_arithmetic<A, B>>(a, b);
}
SIM_INLINE float sim_fminf(float a, float b) { return sim::smaller(a, b); }
SIM_INLINE float sim_fmaxf(float a, float b) { return sim::larger(a, b); }
#define fminf sim_fminf
#define fmaxf sim_fmaxf
SIM_INLINE unsigned umin(unsigned a, unsigned b) { return a < b ? a : b; }
SIM_INLINE unsigned umax(unsigned a, unsigned b) { return a > b ? a : b; }
SIM_INLINE long long llmin(long long a, long long b) { return a < b ? a : b; }
SIM_INLINE long long llmax(long long a, long long b) { return a > b ? a : b; }
SIM_INLINE unsigned long long ullmin(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
SIM_INLINE unsigned long long ullmax(unsigned long long a, unsigned long long b) { return a > b ? a : b; }

// ---- functions that C lacks ----
#define SIM_BOTH(NAME, X, EXPR)                              \
  SIM_INLINE double NAME(double X) { return EXPR; }          \
  SIM_INLINE float NAME##f(float x_) { double X = x_; return (float)(EXPR); } \
  SIM_INLINE float NAME(float x_) { double X = x_; return (float)(EXPR); }

namespace sim {
constexpr double pi = 3.14159265358979323846;
// Exact at multiples of one half: the argument is reduced before it is scaled by pi.
inline double sine_of_pi(double x) {
  if (!(x - x == 0.0)) return x - x;
  const double n = ::nearbyint(2.0 * x), r = x - 0.5 * n;
  const long long quadrant = (long long)::fmod(n, 4.0) & 3;
  const double a = r * pi;
  switch (quadrant) {
    case 0: return r == 0.0 ? ::copysign(0.0, x) : ::sin(a);
    case 1: return ::cos(a);
    case 2: return r == 0.0 ? ::copysign(0.0, x) : -::sin(a);
    default: return -::cos(a);
  }
}
inline double cosine_of_pi(double x) {
  if (!(x - x == 0.0)) return x - x;
  const double n = ::nearbyint(2.0 * x), r = x - 0.5 * n;
  const long long quadrant = (long long)::fmod(n, 4.0) & 3;
  const double a = r * pi;
  switch (quadrant) {
    case 0: return ::cos(a);
    case 1: return r == 0.0 ? 0.0 : -::sin(a);
    case 2: return -::cos(a);
    default: return r == 0.0 ? 0.0 : ::sin(a);
  }
}
// Inverse of the normal distribution: Acklam's rational start, then two Halley steps on erfc.
inline double inverse_normal(double p) {
  if (p != p || p < 0.0 || p > 1.0) return __builtin_nan("");
  if (p == 0.0) return -__builtin_inf();
  if (p == 1.0) return __builtin_inf();
  const bool upper = p > 0.5;
  const double q = upper ? 1.0 - p : p;
  const double t = ::sqrt(-2.0 * ::log(q));
  double x = -(t - (2.515517 + 0.802853 * t + 0.010328 * t * t) / (1.0 + 1.432788 * t + 0.189269 * t * t + 0.001308 * t * t * t));
  for (int i = 0; i < 3; ++i) {
    const double e = 0.5 * ::erfc(-x / 1.41421356237309504880) - q;
    const double u = e * 2.50662827463100050242 * ::exp(0.5 * x * x);
    x -= u / (1.0 + 0.5 * x * u);
  }
  return upper ? -x : x;
}
inline double inverse_erf(double y) {
  if (y != y || y < -1.0 || y > 1.0) return __builtin_nan("");
  if (::fabs(y) < 1e-8) return y * 0.886226925452758013649;
  if (y == 1.0) return __builtin_inf();
  if (y == -1.0) return -__builtin_inf();
  double x = inverse_normal(0.5 * (y + 1.0)) / 1.41421356237309504880;
  for (int i = 0; i < 2; ++i) {
    const double e = (::erf(x) - y) / (1.12837916709551257390 * ::exp(-x * x));
    x -= e / (1.0 + x * e);
  }
  return x;
}
inline double scaled_erfc(double x) {
  if (x < 25.0) return ::exp(x * x) * ::erfc(x);
  const double s = 1.0 / (x * x);
  return 0.564189583547756286948 / x * (1.0 - 0.5 * s * (1.0 - 1.5 * s));
}
// Modified Bessel functions of the first kind, by their power series (all terms are positive).
inline double bessel_i(int order, double x) {
  const double h = 0.5 * ::fabs(x), q = h * h;
  double term = order == 0 ? 1.0 : h, sum = term;
  for (int k = 1; k < 2000; ++k) {
    term *= q / ((double)k * (double)(k + order));
    sum += term;
    if (term < sum * 1e-17) break;
  }
  return order == 1 && x < 0.0 ? -sum : sum;
}
}  // namespace sim

// C23 libraries declare these too (glibc from 2.41 on): ours go by another name.
#define rsqrt sim_rsqrt
#define rsqrtf sim_rsqrtf
#define sinpi sim_sinpi
#define sinpif sim_sinpif
#define cospi sim_cospi
#define cospif sim_cospif
SIM_BOTH(rsqrt, x, 1.0 / ::sqrt(x))
SIM_BOTH(rcbrt, x, 1.0 / ::cbrt(x))
SIM_BOTH(sinpi, x, sim::sine_of_pi(x))
SIM_BOTH(cospi, x, sim::cosine_of_pi(x))
SIM_BOTH(erfinv, x, sim::inverse_erf(x))
SIM_BOTH(erfcinv, x, -sim::inverse_normal(0.5 * (x)) / 1.41421356237309504880)
SIM_BOTH(erfcx, x, sim::scaled_erfc(x))
SIM_BOTH(normcdf, x, 0.5 * ::erfc(-(x) / 1.41421356237309504880))
SIM_BOTH(normcdfinv, x, sim::inverse_normal(x))
SIM_BOTH(cyl_bessel_i0, x, sim::bessel_i(0, x))
SIM_BOTH(cyl_bessel_i1, x, sim::bessel_i(1, x))
SIM_INLINE float exp10(float x) { return ::exp10f(x); }
SIM_INLINE void sincos(float x, float *s, float *c) { *s = ::sinf(x), *c = ::cosf(x); }
SIM_INLINE void sincospi(double x, double *s, double *c) { *s = sim::sine_of_pi(x), *c = sim::cosine_of_pi(x); }
SIM_INLINE void sincospif(float x, float *s, float *c) { *s = sinpif(x), *c = cospif(x); }
SIM_INLINE void sincospi(float x, float *s, float *c) { sincospif(x, s, c); }
SIM_INLINE double rhypot(double a, double b) { return 1.0 / ::hypot(a, b); }
SIM_INLINE float rhypotf(float a, float b) { return (float)(1.0 / ::hypot((double)a, (double)b)); }
SIM_INLINE double norm3d(double a, double b, double c) { return ::sqrt(a * a + b * b + c * c); }
SIM_INLINE float norm3df(float a, float b, float c) { return (float)norm3d(a, b, c); }
SIM_INLINE double rnorm3d(double a, double b, double c) { return 1.0 / norm3d(a, b, c); }
SIM_INLINE float rnorm3df(float a, float b, float c) { return (float)rnorm3d(a, b, c); }
SIM_INLINE double norm4d(double a, double b, double c, double d) { return ::sqrt(a * a + b * b + c * c + d * d); }
SIM_INLINE float norm4df(float a, float b, float c, float d) { return (float)norm4d(a, b, c, d); }
SIM_INLINE double rnorm4d(double a, double b, double c, double d) { return 1.0 / norm4d(a, b, c, d); }
SIM_INLINE float rnorm4df(float a, float b, float c, float d) { return (float)rnorm4d(a, b, c, d); }
SIM_INLINE double norm(int n, const double *p) {
  double s = 0.0;
  for (int i = 0; i < n; ++i) s += p[i] * p[i];
  return ::sqrt(s);
}
SIM_INLINE float normf(int n, const float *p) {
  double s = 0.0;
  for (int i = 0; i < n; ++i) s += (double)p[i] * p[i];
  return (float)::sqrt(s);
}
SIM_INLINE double rnorm(int n, const double *p) { return 1.0 / norm(n, p); }
SIM_INLINE float rnormf(int n, const float *p) { return (float)(1.0 / (double)normf(n, p)); }
SIM_INLINE float fdividef(float a, float b) { return a / b; }

// ---- fast forms; the C library has names like these, so they are macros ----
SIM_INLINE float sim_fast_expf(float x) { return ::expf(x); }
SIM_INLINE float sim_fast_exp10f(float x) { return ::exp10f(x); }
SIM_INLINE float sim_fast_logf(float x) { return ::logf(x); }
SIM_INLINE float sim_fast_log2f(float x) { return ::log2f(x); }
SIM_INLINE float sim_fast_log10f(float x) { return ::log10f(x); }
SIM_INLINE float sim_fast_sinf(float x) { return ::sinf(x); }
SIM_INLINE float sim_fast_cosf(float x) { return ::cosf(x); }
SIM_INLINE float sim_fast_tanf(float x) { return ::tanf(x); }
SIM_INLINE float sim_fast_tanhf(float x) { return ::tanhf(x); }
SIM_INLINE float sim_fast_powf(float a, float b) { return ::powf(a, b); }
SIM_INLINE void sim_fast_sincosf(float x, float *s, float *c) { *s = ::sinf(x), *c = ::cosf(x); }
#define __expf ::sim_fast_expf
#define __exp10f ::sim_fast_exp10f
#define __logf ::sim_fast_logf
#define __log2f ::sim_fast_log2f
#define __log10f ::sim_fast_log10f
#define __sinf ::sim_fast_sinf
#define __cosf ::sim_fast_cosf
#define __tanf ::sim_fast_tanf
#define __tanhf ::sim_fast_tanhf
#define __powf ::sim_fast_powf
#define __sincosf ::sim_fast_sincosf
SIM_INLINE float __fdividef(float a, float b) { return a / b; }

// ---- loads and stores with a cache hint ----
#define SIM_LOAD(NAME) \
  template <class T> SIM_INLINE T NAME(const T *p) { return *p; }
#define SIM_STORE(NAME) \
  template <class T, class V> SIM_INLINE void NAME(T *p, const V &v) { *p = static_cast<T>(v); }
SIM_LOAD(__ldg) SIM_LOAD(__ldca) SIM_LOAD(__ldcg) SIM_LOAD(__ldcs) SIM_LOAD(__ldlu) SIM_LOAD(__ldcv)
SIM_STORE(__stwb) SIM_STORE(__stcg) SIM_STORE(__stcs) SIM_STORE(__stwt)

// ---- printing and checking ----
template <class... A> SIM_INLINE int sim_print(const char *, const A &...) { return (int)sizeof...(A); }
#define printf(...) ::sim_print(__VA_ARGS__)
#undef assert
#define assert(...) ((__VA_ARGS__) ? (void)0 : ::sim_trap("assertion failed: " #__VA_ARGS__, __LINE__))
#ifndef __builtin_assume
#define __builtin_assume(...) ((void)0)
#endif
#define __assume(...) ((void)0)
// Counters of old profilers.
SIM_INLINE void __prof_trigger(int) {}
SIM_INLINE void __pm0() {}
SIM_INLINE void __pm1() {}
SIM_INLINE void __pm2() {}
SIM_INLINE void __pm3() {}

#ifdef SIM_CHECK
// The C functions are not instrumented: say what they touch.
SIM_INLINE void *sim_memcpy(void *d, const void *s, size_t n, SIM_LINE) {
  if (n) sim_note_access(s, (unsigned)n, 0, sim_line), sim_note_access(d, (unsigned)n, 1, sim_line);
  return __builtin_memcpy(d, s, n);
}
SIM_INLINE void *sim_memset(void *d, int v, size_t n, SIM_LINE) {
  if (n) sim_note_access(d, (unsigned)n, 1, sim_line);
  return __builtin_memset(d, v, n);
}
#define memcpy(...) ::sim_memcpy(__VA_ARGS__)
#define memset(...) ::sim_memset(__VA_ARGS__)
#endif
