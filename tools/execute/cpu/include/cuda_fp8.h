// 8-bit floating-point types of the CPU executor: e4m3 (no infinities, NaN is all ones) and e5m2.
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
typedef enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(const double x, const __nv_saturation_t saturate, const __nv_fp8_interpretation_t kind) {
    if (x != x) return 0x7f;
    const unsigned sign = static_cast<unsigned>(simh::bits<std::uint64_t>(x) >> 56) & 0x80u;
    unsigned magnitude;
    if (kind == __NV_E4M3) {
        magnitude = simh::magnitude<4, 3, 0x7f>(x, simh::round::nearest);
        if (magnitude == 0x7f && saturate == __NV_SATFINITE) magnitude = 0x7e;
    } else {
        magnitude = simh::magnitude<5, 2>(x, simh::round::nearest);
        if (magnitude == 0x7c && saturate == __NV_SATFINITE) magnitude = 0x7b;
    }
    return static_cast<__nv_fp8_storage_t>(sign | magnitude);
}
inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(const float x, const __nv_saturation_t s, const __nv_fp8_interpretation_t kind) { return __nv_cvt_double_to_fp8(x, s, kind); }
inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(const __half_raw x, const __nv_saturation_t s, const __nv_fp8_interpretation_t kind) {
    return __nv_cvt_double_to_fp8(simh::float_from_half(x.x), s, kind);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(const __nv_bfloat16_raw x, const __nv_saturation_t s, const __nv_fp8_interpretation_t kind) {
    return __nv_cvt_double_to_fp8(simh::float_from_bfloat(x.x), s, kind);
}
namespace simh {
inline unsigned short fp8_pair(unsigned lo, unsigned hi) { return static_cast<unsigned short>(lo | (hi << 8)); }
/// An 8-bit float is the upper byte of a half (e5m2), or a half with two fraction bits less and bias 7 (e4m3).
inline unsigned short half_from_fp8(unsigned char x, __nv_fp8_interpretation_t kind) {
    if (kind == __NV_E5M2) return static_cast<unsigned short>((x & 0x7f) > 0x7c ? 0x7fff : x << 8);
    if ((x & 0x7f) == 0x7f) return 0x7fff;
    // Read with bias 15, the value is 2^-8 of what it should be.
    const unsigned short shifted = static_cast<unsigned short>(((x & 0x80) << 8) | ((x & 0x7f) << 7));
    return half_from_float(float_from_half(shifted) * 256.0f);
}
}  // namespace simh
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(const float2 x, const __nv_saturation_t s, const __nv_fp8_interpretation_t k) {
    return simh::fp8_pair(__nv_cvt_float_to_fp8(x.x, s, k), __nv_cvt_float_to_fp8(x.y, s, k));
}
inline __nv_fp8x2_storage_t __nv_cvt_double2_to_fp8x2(const double2 x, const __nv_saturation_t s, const __nv_fp8_interpretation_t k) {
    return simh::fp8_pair(__nv_cvt_double_to_fp8(x.x, s, k), __nv_cvt_double_to_fp8(x.y, s, k));
}
inline __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(const __half2_raw x, const __nv_saturation_t s, const __nv_fp8_interpretation_t k) {
    return simh::fp8_pair(__nv_cvt_halfraw_to_fp8(__half_raw{x.x}, s, k), __nv_cvt_halfraw_to_fp8(__half_raw{x.y}, s, k));
}
inline __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(const __nv_bfloat162_raw x, const __nv_saturation_t s, const __nv_fp8_interpretation_t k) {
    return simh::fp8_pair(__nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw{x.x}, s, k), __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw{x.y}, s, k));
}
inline __half_raw __nv_cvt_fp8_to_halfraw(const __nv_fp8_storage_t x, const __nv_fp8_interpretation_t k) { return __half_raw{simh::half_from_fp8(x, k)}; }
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(const __nv_fp8x2_storage_t x, const __nv_fp8_interpretation_t k) {
    return __half2_raw{simh::half_from_fp8(static_cast<unsigned char>(x), k), simh::half_from_fp8(static_cast<unsigned char>(x >> 8), k)};
}

// Copy assignment is spelled out for the same reason as in sim_float16.inc.
#define SIM_FP8(name, pair, quad, kind)                                                                                \
    struct alignas(1) name {                                                                                           \
        __nv_fp8_storage_t __x;                                                                                        \
        name() = default;                                                                                              \
        constexpr name(const name&) = default;                                                                         \
        name& operator=(const name& other) { __x = other.__x; return *this; }                                          \
        explicit name(const float f) : __x(__nv_cvt_float_to_fp8(f, __NV_SATFINITE, kind)) {}                          \
        explicit name(const double f) : __x(__nv_cvt_double_to_fp8(f, __NV_SATFINITE, kind)) {}                        \
        explicit name(const __half f) : __x(__nv_cvt_halfraw_to_fp8(f, __NV_SATFINITE, kind)) {}                       \
        explicit name(const __nv_bfloat16 f) : __x(__nv_cvt_bfloat16raw_to_fp8(f, __NV_SATFINITE, kind)) {}            \
        template <class Int, class = std::enable_if_t<std::is_integral<Int>::value>>                                   \
        explicit name(const Int v) : __x(__nv_cvt_double_to_fp8(simh::double_to_odd(v), __NV_SATFINITE, kind)) {}      \
        explicit operator __half() const { return __half(__nv_cvt_fp8_to_halfraw(__x, kind)); }                        \
        explicit operator float() const { return simh::float_from_half(simh::half_from_fp8(__x, kind)); }              \
        explicit operator double() const { return static_cast<double>(static_cast<float>(*this)); }                    \
        explicit operator __nv_bfloat16() const { return __nv_bfloat16(static_cast<float>(*this)); }                   \
        explicit operator bool() const { return (__x & 0x7f) != 0; }                                                   \
        template <class Int, class = std::enable_if_t<std::is_integral<Int>::value && !std::is_same<Int, bool>::value>> \
        explicit operator Int() const { return sim_to<Int>(static_cast<__half>(*this)); }  \
    };                                                                                                                 \
    struct alignas(2) pair {                                                                                           \
        __nv_fp8x2_storage_t __x;                                                                                      \
        pair() = default;                                                                                              \
        constexpr pair(const pair&) = default;                                                                         \
        pair& operator=(const pair& other) { __x = other.__x; return *this; }                                          \
        explicit pair(const float2 f) : __x(__nv_cvt_float2_to_fp8x2(f, __NV_SATFINITE, kind)) {}                      \
        explicit pair(const double2 f) : __x(__nv_cvt_double2_to_fp8x2(f, __NV_SATFINITE, kind)) {}                    \
        explicit pair(const __half2 f) : __x(__nv_cvt_halfraw2_to_fp8x2(f, __NV_SATFINITE, kind)) {}                   \
        explicit pair(const __nv_bfloat162 f) : __x(__nv_cvt_bfloat16raw2_to_fp8x2(f, __NV_SATFINITE, kind)) {}        \
        explicit operator __half2() const { return __half2(__nv_cvt_fp8x2_to_halfraw2(__x, kind)); }                   \
        explicit operator float2() const { return __half22float2(static_cast<__half2>(*this)); }                       \
    };                                                                                                                 \
    struct alignas(4) quad {                                                                                           \
        __nv_fp8x4_storage_t __x;                                                                                      \
        quad() = default;                                                                                              \
        constexpr quad(const quad&) = default;                                                                         \
        quad& operator=(const quad& other) { __x = other.__x; return *this; }                                          \
        explicit quad(const float4 f)                                                                                  \
            : __x(static_cast<unsigned>(__nv_cvt_float2_to_fp8x2(make_float2(f.x, f.y), __NV_SATFINITE, kind)) |       \
                  (static_cast<unsigned>(__nv_cvt_float2_to_fp8x2(make_float2(f.z, f.w), __NV_SATFINITE, kind)) << 16)) {} \
        explicit operator float4() const {                                                                             \
            const float2 a = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(static_cast<unsigned short>(__x), kind))); \
            const float2 b = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(static_cast<unsigned short>(__x >> 16), kind))); \
            return make_float4(a.x, a.y, b.x, b.y);                                                                    \
        }                                                                                                              \
    };
SIM_FP8(__nv_fp8_e4m3, __nv_fp8x2_e4m3, __nv_fp8x4_e4m3, __NV_E4M3)
SIM_FP8(__nv_fp8_e5m2, __nv_fp8x2_e5m2, __nv_fp8x4_e5m2, __NV_E5M2)
#undef SIM_FP8
