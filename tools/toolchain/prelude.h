// The fixed prelude before every kernel.cu, the same for NVRTC and for the CPU executor.
// It gives what models expect of host headers: fixed-width integers, limits, INFINITY, NAN, M_PI, a little of std.
#ifndef CUDA_HARNESS_PRELUDE
#define CUDA_HARNESS_PRELUDE

#ifndef CUDA_HARNESS_EXECUTOR_CPU
#pragma nv_diag_suppress 47     // CCCL spells some of these macros otherwise
#pragma nv_diag_suppress 20044  // extern "C" __constant__ on one line is a definition here
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef long long intptr_t;
typedef unsigned long long uintptr_t;
typedef long long intmax_t;
typedef unsigned long long uintmax_t;
typedef signed char int_least8_t;
typedef short int_least16_t;
typedef int int_least32_t;
typedef long long int_least64_t;
typedef unsigned char uint_least8_t;
typedef unsigned short uint_least16_t;
typedef unsigned int uint_least32_t;
typedef unsigned long long uint_least64_t;
typedef int int_fast32_t;
typedef unsigned int uint_fast32_t;

#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN (-128)
#define CHAR_MAX 127
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MIN (-INT_MAX - 1)
#define INT_MAX 0x7fffffff
#define UINT_MAX 0xffffffff
#define LONG_MAX 0x7fffffffffffffffL
#define LONG_MIN (-LONG_MAX - 1L)
#define ULONG_MAX 0xffffffffffffffffUL
#define LLONG_MAX 0x7fffffffffffffffLL
#define LLONG_MIN (-LLONG_MAX - 1LL)
#define ULLONG_MAX 0xffffffffffffffffULL
#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295U
#define INT64_MAX 9223372036854775807LL
#define INT64_MIN (-INT64_MAX - 1LL)
#define UINT64_MAX 18446744073709551615ULL
#define SIZE_MAX 18446744073709551615ULL

#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_EPSILON 1.19209290e-7f
#define FLT_MIN 1.17549435e-38f
#define FLT_MAX 3.40282347e+38f
#define FLT_TRUE_MIN 1.40129846e-45f
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_EPSILON 2.2204460492503131e-16
#define DBL_MIN 2.2250738585072014e-308
#define DBL_MAX 1.7976931348623157e+308
#define DBL_TRUE_MIN 4.9406564584124654e-324

#define INFINITY (__int_as_float(0x7f800000))
#define NAN (__int_as_float(0x7fffffff))
#define HUGE_VALF (__int_as_float(0x7f800000))
#define HUGE_VAL (__longlong_as_double(0x7ff0000000000000LL))
#define NULL 0

#ifndef __cuda_cuda_h__
// A TMA descriptor as a kernel sees it: opaque, by value. The driver's header, where it was read, has its own.
typedef struct alignas(64) CUtensorMap_st {
  unsigned long long opaque[16];
} CUtensorMap;
#endif
#endif  // not the CPU executor

#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif
#ifndef CUDART_PI_F
#define CUDART_INF_F INFINITY
#define CUDART_INF HUGE_VAL
#define CUDART_NAN_F NAN
#define CUDART_PI_F 3.141592654f
#define CUDART_PI 3.1415926535897931e+0
#define CUDART_PIO2_F 1.570796327f
#define CUDART_SQRT_2PI_F 2.506628275f
#define CUDART_SQRT_HALF_F 0.707106781f
#define CUDART_SQRT_TWO_F 1.414213562f
#define CUDART_LOG2E_F 1.442695041f
#define CUDART_LN2_F 0.693147181f
#define CUDART_MAX_NORMAL_F 3.402823466e38f
#define CUDART_MIN_DENORM_F 1.401298464e-45f
#define CUDART_ZERO_F 0.0f
#define CUDART_ONE_F 1.0f
#endif

typedef unsigned char uchar;
#ifndef CUDA_HARNESS_EXECUTOR_CPU
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

// A little of std for device code; CCCL's cuda::std has the whole.
namespace std {
template <class T> struct numeric_limits;
#define CUDA_HARNESS_LIMITS(T, LOW, MIN, HIGH, EPS, INF, QNAN, INTEGER, SIGNED, DIGITS, CONST)                          \
  template <> struct numeric_limits<T> {                                                                               \
    static constexpr bool is_specialized = true, is_integer = INTEGER, is_exact = INTEGER, is_signed = SIGNED,          \
                          has_infinity = !INTEGER, has_quiet_NaN = !INTEGER;                                            \
    static constexpr int digits = DIGITS;                                                                              \
    __host__ __device__ static constexpr T min() { return MIN; }                                                       \
    __host__ __device__ static constexpr T lowest() { return LOW; }                                                    \
    __host__ __device__ static constexpr T max() { return HIGH; }                                                      \
    __host__ __device__ static constexpr T epsilon() { return EPS; }                                                   \
    __host__ __device__ static CONST T infinity() { return INF; }                                                      \
    __host__ __device__ static CONST T quiet_NaN() { return QNAN; }                                                    \
  };
CUDA_HARNESS_LIMITS(float, -FLT_MAX, FLT_MIN, FLT_MAX, FLT_EPSILON, INFINITY, NAN, false, true, 24, inline)
CUDA_HARNESS_LIMITS(double, -DBL_MAX, DBL_MIN, DBL_MAX, DBL_EPSILON, HUGE_VAL, __longlong_as_double(0x7fffffffffffffffLL), false, true, 53, inline)
CUDA_HARNESS_LIMITS(bool, false, false, true, false, false, false, true, false, 1, constexpr)
CUDA_HARNESS_LIMITS(char, CHAR_MIN, CHAR_MIN, CHAR_MAX, 0, 0, 0, true, true, 7, constexpr)
CUDA_HARNESS_LIMITS(signed char, SCHAR_MIN, SCHAR_MIN, SCHAR_MAX, 0, 0, 0, true, true, 7, constexpr)
CUDA_HARNESS_LIMITS(unsigned char, 0, 0, UCHAR_MAX, 0, 0, 0, true, false, 8, constexpr)
CUDA_HARNESS_LIMITS(short, SHRT_MIN, SHRT_MIN, SHRT_MAX, 0, 0, 0, true, true, 15, constexpr)
CUDA_HARNESS_LIMITS(unsigned short, 0, 0, USHRT_MAX, 0, 0, 0, true, false, 16, constexpr)
CUDA_HARNESS_LIMITS(int, INT_MIN, INT_MIN, INT_MAX, 0, 0, 0, true, true, 31, constexpr)
CUDA_HARNESS_LIMITS(unsigned int, 0, 0, UINT_MAX, 0, 0, 0, true, false, 32, constexpr)
CUDA_HARNESS_LIMITS(long, LONG_MIN, LONG_MIN, LONG_MAX, 0, 0, 0, true, true, 63, constexpr)
CUDA_HARNESS_LIMITS(unsigned long, 0, 0, ULONG_MAX, 0, 0, 0, true, false, 64, constexpr)
CUDA_HARNESS_LIMITS(long long, LLONG_MIN, LLONG_MIN, LLONG_MAX, 0, 0, 0, true, true, 63, constexpr)
CUDA_HARNESS_LIMITS(unsigned long long, 0, 0, ULLONG_MAX, 0, 0, 0, true, false, 64, constexpr)
#undef CUDA_HARNESS_LIMITS
template <class T> __host__ __device__ constexpr const T &min(const T &a, const T &b) { return b < a ? b : a; }
template <class T> __host__ __device__ constexpr const T &max(const T &a, const T &b) { return a < b ? b : a; }
template <class T> __host__ __device__ constexpr void swap(T &a, T &b) { T t = a; a = b; b = t; }
template <class A, class B> struct is_same { static constexpr bool value = false; };
template <class A> struct is_same<A, A> { static constexpr bool value = true; };
template <class A, class B> inline constexpr bool is_same_v = is_same<A, B>::value;
template <bool B, class T, class F> struct conditional { using type = T; };
template <class T, class F> struct conditional<false, T, F> { using type = F; };
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
using ::abs; using ::fabs; using ::sqrt; using ::exp; using ::log; using ::pow; using ::sin; using ::cos; using ::tan;
using ::tanh; using ::floor; using ::ceil; using ::round; using ::fmin; using ::fmax; using ::fma; using ::exp2;
using ::log2; using ::log10; using ::isnan; using ::isinf; using ::isfinite; using ::erf; using ::sinh; using ::cosh;
using ::atan; using ::atan2; using ::asin; using ::acos; using ::cbrt; using ::hypot; using ::trunc; using ::fmod;
using ::log1p; using ::expm1;
using ::int8_t; using ::int16_t; using ::int32_t; using ::int64_t; using ::uint8_t; using ::uint16_t; using ::uint32_t;
using ::uint64_t; using ::intptr_t; using ::uintptr_t; using ::size_t; using ::ptrdiff_t;
}  // namespace std
#endif
#endif
