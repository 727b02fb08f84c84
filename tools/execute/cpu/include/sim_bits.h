// Bit casts, conversions with every rounding mode, directed-rounding arithmetic and integer intrinsics.
//
// Directed rounding does not touch the CPU's rounding mode (a compiler may move operations across a mode change):
// the result is computed to nearest together with the sign of its error, and stepped one place where needed.
#pragma once
#include "sim_float16.h"

// Bit casts ---------------------------------------------------------------------------------------------------
inline int __float_as_int(float x) { return simh::bits<int>(x); }
inline unsigned __float_as_uint(float x) { return simh::bits<unsigned>(x); }
inline float __int_as_float(int x) { return simh::bits<float>(x); }
inline float __uint_as_float(unsigned x) { return simh::bits<float>(x); }
inline long long __double_as_longlong(double x) { return simh::bits<long long>(x); }
inline double __longlong_as_double(long long x) { return simh::bits<double>(x); }
inline int __double2hiint(double x) { return static_cast<int>(simh::bits<std::uint64_t>(x) >> 32); }
inline int __double2loint(double x) { return static_cast<int>(simh::bits<std::uint64_t>(x)); }
inline double __hiloint2double(int hi, int lo) {
    return simh::bits<double>((static_cast<std::uint64_t>(static_cast<unsigned>(hi)) << 32) | static_cast<unsigned>(lo));
}

namespace simh {

inline float step(float x, bool up) { return __builtin_nextafterf(x, up ? __builtin_inff() : -__builtin_inff()); }
inline double step(double x, bool up) { return __builtin_nextafter(x, up ? __builtin_inf() : -__builtin_inf()); }

/// Corrects `nearest`, the round-to-nearest result, when the exact value lies above (error > 0) or below it.
template <class F>
inline F directed(F nearest, F error, round mode) {
    if (mode == round::nearest || error == F(0) || nearest != nearest) return nearest;
    if (nearest - nearest != F(0)) {
        // Overflow: the exact value is finite.
        const bool negative = nearest < F(0);
        const bool keep = (mode == round::up && !negative) || (mode == round::down && negative);
        return keep ? nearest : step(nearest, negative);
    }
    const bool above = error > F(0);
    switch (mode) {
        case round::up: return above ? step(nearest, true) : nearest;
        case round::down: return above ? nearest : step(nearest, false);
        default: {
            const bool negative = nearest < F(0) || (nearest == F(0) && !above);
            if (negative && above) return step(nearest, true);
            if (!negative && !above) return step(nearest, false);
            return nearest;
        }
    }
}

/// double -> float; double carries every float operation below with enough bits to know the sign of the error.
inline float narrow(double x, round mode) {
    const float nearest = static_cast<float>(x);
    if (mode == round::nearest || nearest != nearest || x - x != 0.0) return nearest;
    const double error = nearest - nearest != 0.0f ? (x > 0 ? -1.0 : 1.0) : x - static_cast<double>(nearest);
    return directed(nearest, static_cast<float>(error > 0 ? 1 : (error < 0 ? -1 : 0)), mode);
}

/// The sum of a and b, forced to odd.
inline double add_to_odd(double a, double b) { return fma_to_odd(a, 1.0, b); }

inline float add(float a, float b, round mode) {
    const double sum = add_to_odd(a, b);
    if (sum == 0.0) {
        // An exact zero of unlike signs is +0, and -0 when rounding down.
        if (a == 0.0f && b == 0.0f && __builtin_signbit(a) == __builtin_signbit(b)) return a;
        return mode == round::down ? -0.0f : 0.0f;
    }
    return narrow(sum, mode);
}
inline float multiply(float a, float b, round mode) { return narrow(static_cast<double>(a) * static_cast<double>(b), mode); }
inline float fused(float a, float b, float c, round mode) {
    const double sum = fma_to_odd(a, b, c);
    if (sum == 0.0 && mode == round::down && !(__builtin_signbit(static_cast<double>(a) * b) == __builtin_signbit(c)))
        return -0.0f;
    return narrow(sum, mode);
}

/// Applies an error known only by sign to a double.
inline double settle(double nearest, double error, round mode) {
    return directed(nearest, error > 0 ? 1.0 : (error < 0 ? -1.0 : 0.0), mode);
}
inline bool finite(double x) { return x - x == 0.0; }

inline float divide(float a, float b, round mode) {
    double quotient = static_cast<double>(a) / static_cast<double>(b);
    if (mode == round::nearest || !finite(quotient) || quotient == 0.0) return static_cast<float>(quotient);
    const double remainder = __builtin_fma(-quotient, static_cast<double>(b), static_cast<double>(a));
    std::uint64_t word = bits<std::uint64_t>(quotient);
    if (remainder != 0.0 && !(word & 1u)) {
        // Force to odd: the exact quotient lies beyond (grow) or before the double one.
        const bool grow = (remainder > 0) == (a > 0);
        word += grow ? 1 : ~std::uint64_t{0};
        quotient = bits<double>(word);
    }
    return narrow(quotient, mode);
}
inline float root(float a, round mode) {
    const double r = __builtin_sqrt(static_cast<double>(a));
    if (mode == round::nearest || !finite(r) || r == 0.0) return static_cast<float>(r);
    const float near = static_cast<float>(r);
    // near * near is exact in double, so the comparison with a tells on which side the root lies.
    const double square = static_cast<double>(near) * static_cast<double>(near);
    const double x = static_cast<double>(a);
    return directed(near, x > square ? 1.0f : (x < square ? -1.0f : 0.0f), mode);
}

inline double add(double a, double b, round mode) {
    const double sum = a + b;
    if (mode == round::nearest || !finite(a) || !finite(b)) return sum;
    if (sum == 0.0) {
        if (a == 0.0 && b == 0.0 && __builtin_signbit(a) == __builtin_signbit(b)) return a;
        return mode == round::down ? -0.0 : 0.0;
    }
    if (!finite(sum)) return settle(sum, sum > 0 ? -1.0 : 1.0, mode);
    const double part = sum - a;
    return settle(sum, (a - (sum - part)) + (b - part), mode);
}
inline double multiply(double a, double b, round mode) {
    const double product = a * b;
    if (mode == round::nearest || !finite(a) || !finite(b) || a == 0.0 || b == 0.0) return product;
    if (!finite(product)) return settle(product, product > 0 ? -1.0 : 1.0, mode);
    int ea, eb;
    const double ma = __builtin_frexp(a, &ea);
    const double mb = __builtin_frexp(b, &eb);
    return settle(product, __builtin_fma(ma, mb, -__builtin_ldexp(product, -(ea + eb))), mode);
}
inline double fused(double a, double b, double c, round mode) {
    const double result = __builtin_fma(a, b, c);
    if (mode == round::nearest || !finite(a) || !finite(b) || !finite(c)) return result;
    if (!finite(result)) return settle(result, result > 0 ? -1.0 : 1.0, mode);
    // Error of a fused operation (Boldo and Muller 2005): product and sum are split without loss, as long as
    // the product is not below 2^-916, where its low half underflows.
    const double p = a * b;
    const double p_low = __builtin_fma(a, b, -p);
    const double s = p + c;
    const double t = s - p;
    const double s_low = (p - (s - t)) + (c - t);
    const double high = s - result;
    const double error = high + (s_low + p_low);
    if (result == 0.0 && error == 0.0)
        return mode == round::down && __builtin_signbit(p) != __builtin_signbit(c) ? -0.0 : result;
    return settle(result, error, mode);
}
inline double divide(double a, double b, round mode) {
    const double quotient = a / b;
    if (mode == round::nearest || !finite(a) || !finite(b) || b == 0.0 || a == 0.0) return quotient;
    if (!finite(quotient)) return settle(quotient, quotient > 0 ? -1.0 : 1.0, mode);
    int ea, eb;
    const double ma = __builtin_frexp(a, &ea);
    const double mb = __builtin_frexp(b, &eb);
    const double remainder = __builtin_fma(-__builtin_ldexp(quotient, eb - ea), mb, ma);
    return settle(quotient, b > 0 ? remainder : -remainder, mode);
}
inline double root(double a, round mode) {
    const double r = __builtin_sqrt(a);
    if (mode == round::nearest || !finite(r) || r == 0.0) return r;
    int e;
    double m = __builtin_frexp(a, &e);
    if (e & 1) m *= 2.0, e -= 1;
    const double scaled = __builtin_ldexp(r, -e / 2);
    return settle(r, __builtin_fma(-scaled, scaled, m), mode);
}

/// Any integer as float or double in a rounding mode.
template <class Int>
inline float float_from_integer(Int v, round mode) { return narrow(double_to_odd(v), mode); }
template <class Int>
inline double double_from_integer(Int v, round mode) {
    const double nearest = static_cast<double>(v);
    const __int128 difference = static_cast<__int128>(v) - static_cast<__int128>(nearest);
    return settle(nearest, difference > 0 ? 1.0 : (difference < 0 ? -1.0 : 0.0), mode);
}
}  // namespace simh

#define SIM_MODES(X) X(rn, nearest) X(rz, zero) X(rd, down) X(ru, up)

// Arithmetic --------------------------------------------------------------------------------------------------
#define SIM_ARITHMETIC(suffix, mode)                                                                                       \
    inline float __fadd_##suffix(float a, float b) { return simh::add(a, b, simh::round::mode); }                          \
    inline float __fsub_##suffix(float a, float b) { return simh::add(a, -b, simh::round::mode); }                         \
    inline float __fmul_##suffix(float a, float b) { return simh::multiply(a, b, simh::round::mode); }                     \
    inline float __fmaf_##suffix(float a, float b, float c) { return simh::fused(a, b, c, simh::round::mode); }            \
    inline float __fmaf_ieee_##suffix(float a, float b, float c) { return simh::fused(a, b, c, simh::round::mode); }       \
    inline float __fdiv_##suffix(float a, float b) { return simh::divide(a, b, simh::round::mode); }                       \
    inline float __frcp_##suffix(float a) { return simh::divide(1.0f, a, simh::round::mode); }                             \
    inline float __fsqrt_##suffix(float a) { return simh::root(a, simh::round::mode); }                                    \
    inline double __dadd_##suffix(double a, double b) { return simh::add(a, b, simh::round::mode); }                       \
    inline double __dsub_##suffix(double a, double b) { return simh::add(a, -b, simh::round::mode); }                      \
    inline double __dmul_##suffix(double a, double b) { return simh::multiply(a, b, simh::round::mode); }                  \
    inline double __fma_##suffix(double a, double b, double c) { return simh::fused(a, b, c, simh::round::mode); }         \
    inline double __ddiv_##suffix(double a, double b) { return simh::divide(a, b, simh::round::mode); }                    \
    inline double __drcp_##suffix(double a) { return simh::divide(1.0, a, simh::round::mode); }                            \
    inline double __dsqrt_##suffix(double a) { return simh::root(a, simh::round::mode); }                                  \
    inline float __double2float_##suffix(double a) { return simh::narrow(a, simh::round::mode); }
SIM_MODES(SIM_ARITHMETIC)
#undef SIM_ARITHMETIC
inline float __frsqrt_rn(float a) { return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(a))); }
/// Clamps to [0, 1]; NaN gives +0.
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

// Conversions: out of range saturates; NaN gives 0, or the most negative pattern where 64 bits or double take part. --
#define SIM_CONVERT(suffix, mode)                                                                                             \
    inline int __float2int_##suffix(float x) { return simh::to_integer<int>(x, simh::round::mode); }                          \
    inline unsigned __float2uint_##suffix(float x) { return simh::to_integer<unsigned>(x, simh::round::mode); }               \
    inline long long __float2ll_##suffix(float x) {                                                                           \
        return simh::to_integer<long long>(x, simh::round::mode, static_cast<long long>(1ull << 63));                         \
    }                                                                                                                         \
    inline unsigned long long __float2ull_##suffix(float x) {                                                                 \
        return simh::to_integer<unsigned long long>(x, simh::round::mode, 1ull << 63);                                        \
    }                                                                                                                         \
    inline int __double2int_##suffix(double x) {                                                                              \
        return simh::to_integer<int>(x, simh::round::mode, static_cast<int>(1u << 31));                                       \
    }                                                                                                                         \
    inline unsigned __double2uint_##suffix(double x) { return simh::to_integer<unsigned>(x, simh::round::mode, 1u << 31); }   \
    inline long long __double2ll_##suffix(double x) {                                                                         \
        return simh::to_integer<long long>(x, simh::round::mode, static_cast<long long>(1ull << 63));                         \
    }                                                                                                                         \
    inline unsigned long long __double2ull_##suffix(double x) {                                                               \
        return simh::to_integer<unsigned long long>(x, simh::round::mode, 1ull << 63);                                        \
    }                                                                                                                         \
    inline float __int2float_##suffix(int v) { return simh::float_from_integer(v, simh::round::mode); }                       \
    inline float __uint2float_##suffix(unsigned v) { return simh::float_from_integer(v, simh::round::mode); }                 \
    inline float __ll2float_##suffix(long long v) { return simh::float_from_integer(v, simh::round::mode); }                  \
    inline float __ull2float_##suffix(unsigned long long v) { return simh::float_from_integer(v, simh::round::mode); }        \
    inline double __ll2double_##suffix(long long v) { return simh::double_from_integer(v, simh::round::mode); }               \
    inline double __ull2double_##suffix(unsigned long long v) { return simh::double_from_integer(v, simh::round::mode); }
SIM_MODES(SIM_CONVERT)
#undef SIM_CONVERT
#undef SIM_MODES
inline double __int2double_rn(int v) { return v; }
inline double __uint2double_rn(unsigned v) { return v; }

// Integers ----------------------------------------------------------------------------------------------------
inline int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline unsigned __brev(unsigned x) {
    x = ((x >> 1) & 0x55555555u) | ((x & 0x55555555u) << 1);
    x = ((x >> 2) & 0x33333333u) | ((x & 0x33333333u) << 2);
    x = ((x >> 4) & 0x0f0f0f0fu) | ((x & 0x0f0f0f0fu) << 4);
    return __builtin_bswap32(x);
}
inline unsigned long long __brevll(unsigned long long x) {
    return (static_cast<unsigned long long>(__brev(static_cast<unsigned>(x))) << 32) | __brev(static_cast<unsigned>(x >> 32));
}
/// Position of the |offset|-th set bit counted from `base`, upwards for positive and downwards for negative offsets.
inline unsigned __fns(unsigned mask, unsigned base, int offset) {
    if (offset == 0) return (mask >> base) & 1u ? base : 0xffffffffu;
    const int direction = offset > 0 ? 1 : -1;
    int left = offset > 0 ? offset : -offset;
    for (int at = static_cast<int>(base); at >= 0 && at < 32; at += direction)
        if (((mask >> at) & 1u) && --left == 0) return static_cast<unsigned>(at);
    return 0xffffffffu;
}
inline int __mulhi(int a, int b) { return static_cast<int>((static_cast<long long>(a) * b) >> 32); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32); }
inline long long __mul64hi(long long a, long long b) { return static_cast<long long>((static_cast<__int128>(a) * b) >> 64); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}
/// Low 32 bits of the product of the low 24 bits, sign-extended.
inline int __mul24(int a, int b) {
    const long long p = static_cast<long long>(static_cast<int>(static_cast<unsigned>(a) << 8) >> 8) *
                        (static_cast<int>(static_cast<unsigned>(b) << 8) >> 8);
    return static_cast<int>(p);
}
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffffu) * (b & 0xffffffu); }
inline unsigned __usad(unsigned a, unsigned b, unsigned c) { return (a > b ? a - b : b - a) + c; }
inline unsigned __sad(int a, int b, unsigned c) {
    return (a > b ? static_cast<unsigned>(a) - static_cast<unsigned>(b) : static_cast<unsigned>(b) - static_cast<unsigned>(a)) + c;
}
inline int __hadd(int a, int b) { return static_cast<int>((static_cast<long long>(a) + b) >> 1); }
inline int __rhadd(int a, int b) { return static_cast<int>((static_cast<long long>(a) + b + 1) >> 1); }
inline unsigned __uhadd(unsigned a, unsigned b) { return static_cast<unsigned>((static_cast<unsigned long long>(a) + b) >> 1); }
inline unsigned __urhadd(unsigned a, unsigned b) { return static_cast<unsigned>((static_cast<unsigned long long>(a) + b + 1) >> 1); }
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s) {
    const unsigned long long both = (static_cast<unsigned long long>(y) << 32) | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= static_cast<unsigned>((both >> (8 * ((s >> (4 * i)) & 7u))) & 0xffu) << (8 * i);
    return result;
}
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
    return static_cast<unsigned>((((static_cast<unsigned long long>(hi) << 32) | lo) << (shift & 31u)) >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
    return static_cast<unsigned>(((static_cast<unsigned long long>(hi) << 32) | lo) >> (shift & 31u));
}
inline unsigned __funnelshift_lc(unsigned lo, unsigned hi, unsigned shift) { return shift >= 32u ? lo : __funnelshift_l(lo, hi, shift); }
inline unsigned __funnelshift_rc(unsigned lo, unsigned hi, unsigned shift) { return shift >= 32u ? hi : __funnelshift_r(lo, hi, shift); }
