// SIMD-in-a-word intrinsics: two 16-bit or four 8-bit lanes in one 32-bit register, and dot products.
#pragma once
#include "sim_bits.h"

namespace simv {
template <class L, class F>
inline unsigned lanes(unsigned a, unsigned b, F f) {
    constexpr int width = static_cast<int>(sizeof(L)) * 8;
    constexpr unsigned mask = width == 16 ? 0xffffu : 0xffu;
    unsigned result = 0;
    for (int shift = 0; shift < 32; shift += width) {
        const int p = static_cast<L>(a >> shift);
        const int q = static_cast<L>(b >> shift);
        result |= (static_cast<unsigned>(f(p, q)) & mask) << shift;
    }
    return result;
}
template <class L>
inline int clamp(int v) {
    constexpr bool is_signed = static_cast<L>(-1) < static_cast<L>(0);
    constexpr int width = static_cast<int>(sizeof(L)) * 8;
    constexpr int high = is_signed ? (1 << (width - 1)) - 1 : (1 << width) - 1;
    constexpr int low = is_signed ? -(1 << (width - 1)) : 0;
    return v > high ? high : (v < low ? low : v);
}
inline int absolute(int v) { return v < 0 ? -v : v; }
}  // namespace simv

#define SIM_V(name, L, expression)                                                                       \
    inline unsigned name(unsigned a, unsigned b) {                                                       \
        return simv::lanes<L>(a, b, [](int p, int q) { (void)p, (void)q; return (expression); });        \
    }
#define SIM_V1(name, L, expression)                                                                      \
    inline unsigned name(unsigned a) {                                                                   \
        return simv::lanes<L>(a, 0u, [](int p, int) { return (expression); });                           \
    }
// One family for signed lanes S, unsigned lanes U and the digit N (2 or 4) of its names.
#define SIM_VFAMILY(N, S, U)                                              \
    SIM_V(__vadd##N, U, p + q)                                            \
    SIM_V(__vaddss##N, S, simv::clamp<S>(p + q))                          \
    SIM_V(__vaddus##N, U, simv::clamp<U>(p + q))                          \
    SIM_V(__vsub##N, U, p - q)                                            \
    SIM_V(__vsubss##N, S, simv::clamp<S>(p - q))                          \
    SIM_V(__vsubus##N, U, simv::clamp<U>(p - q))                          \
    SIM_V(__vavgs##N, S, (p + q + ((p + q) >= 0 ? 1 : 0)) >> 1)           \
    SIM_V(__vavgu##N, U, (p + q + 1) >> 1)                                \
    SIM_V(__vhaddu##N, U, (p + q) >> 1)                                   \
    SIM_V(__vabsdiffs##N, S, simv::absolute(p - q))                       \
    SIM_V(__vabsdiffu##N, U, simv::absolute(p - q))                       \
    SIM_V(__vmaxs##N, S, p > q ? p : q)                                   \
    SIM_V(__vmaxu##N, U, p > q ? p : q)                                   \
    SIM_V(__vmins##N, S, p < q ? p : q)                                   \
    SIM_V(__vminu##N, U, p < q ? p : q)                                   \
    SIM_V1(__vabs##N, S, simv::absolute(p))                               \
    SIM_V1(__vabsss##N, S, simv::clamp<S>(simv::absolute(p)))             \
    SIM_V1(__vneg##N, S, -p)                                              \
    SIM_V1(__vnegss##N, S, simv::clamp<S>(-p))                            \
    SIM_VCOMPARE(N, eq, U, p == q)                                        \
    SIM_VCOMPARE(N, ne, U, p != q)                                        \
    SIM_VCOMPARE(N, ges, S, p >= q)                                       \
    SIM_VCOMPARE(N, geu, U, p >= q)                                       \
    SIM_VCOMPARE(N, gts, S, p > q)                                        \
    SIM_VCOMPARE(N, gtu, U, p > q)                                        \
    SIM_VCOMPARE(N, les, S, p <= q)                                       \
    SIM_VCOMPARE(N, leu, U, p <= q)                                       \
    SIM_VCOMPARE(N, lts, S, p < q)                                        \
    SIM_VCOMPARE(N, ltu, U, p < q)                                        \
    SIM_VSAD(N, s, S)                                                     \
    SIM_VSAD(N, u, U)
// __vcmp* fills the lane with ones, __vset* sets its lowest bit.
#define SIM_VCOMPARE(N, name, L, test)              \
    SIM_V(__vcmp##name##N, L, (test) ? -1 : 0)      \
    SIM_V(__vset##name##N, L, (test) ? 1 : 0)
#define SIM_VSAD(N, letter, L)                                                                              \
    inline unsigned __vsad##letter##N(unsigned a, unsigned b) {                                             \
        unsigned sum = 0;                                                                                   \
        for (int shift = 0; shift < 32; shift += static_cast<int>(sizeof(L)) * 8)                           \
            sum += static_cast<unsigned>(simv::absolute(static_cast<L>(a >> shift) - static_cast<L>(b >> shift))); \
        return sum;                                                                                         \
    }
SIM_VFAMILY(2, short, unsigned short)
SIM_VFAMILY(4, signed char, unsigned char)
#undef SIM_VFAMILY
#undef SIM_VCOMPARE
#undef SIM_VSAD
#undef SIM_V1
#undef SIM_V

// Fused add / three-way minimum and maximum (DPX), with or without a final clamp at zero. ------------------------
#define SIM_DPX_SCALAR(T, S)                                                                                      \
    inline T __vimax3_##S##32(const T a, const T b, const T c) { return a > b ? (a > c ? a : c) : (b > c ? b : c); } \
    inline T __vimin3_##S##32(const T a, const T b, const T c) { return a < b ? (a < c ? a : c) : (b < c ? b : c); } \
    inline T __viaddmax_##S##32(const T a, const T b, const T c) {                                                \
        const T sum = static_cast<T>(static_cast<unsigned>(a) + static_cast<unsigned>(b));                        \
        return sum > c ? sum : c;                                                                                 \
    }                                                                                                             \
    inline T __viaddmin_##S##32(const T a, const T b, const T c) {                                                \
        const T sum = static_cast<T>(static_cast<unsigned>(a) + static_cast<unsigned>(b));                        \
        return sum < c ? sum : c;                                                                                 \
    }                                                                                                             \
    inline T __vibmax_##S##32(const T a, const T b, bool* const pred) { return (*pred = a >= b) ? a : b; }         \
    inline T __vibmin_##S##32(const T a, const T b, bool* const pred) { return (*pred = a <= b) ? a : b; }
SIM_DPX_SCALAR(int, s)
SIM_DPX_SCALAR(unsigned, u)
#undef SIM_DPX_SCALAR
inline int __vimax_s32_relu(const int a, const int b) { return __vimax3_s32(a, b, 0); }
inline int __vimin_s32_relu(const int a, const int b) { return (a < b ? a : b) > 0 ? (a < b ? a : b) : 0; }
inline int __vimax3_s32_relu(const int a, const int b, const int c) { return __vimax3_s32(__vimax3_s32(a, b, c), 0, 0); }
inline int __vimin3_s32_relu(const int a, const int b, const int c) { return __vimax3_s32(__vimin3_s32(a, b, c), 0, 0); }
inline int __viaddmax_s32_relu(const int a, const int b, const int c) { return __vimax3_s32(__viaddmax_s32(a, b, c), 0, 0); }
inline int __viaddmin_s32_relu(const int a, const int b, const int c) { return __vimax3_s32(__viaddmin_s32(a, b, c), 0, 0); }
#define SIM_DPX_PAIR(S)                                                                                                          \
    inline unsigned __vimax3_##S##16x2(unsigned a, unsigned b, unsigned c) { return __vmax##S##2(__vmax##S##2(a, b), c); }       \
    inline unsigned __vimin3_##S##16x2(unsigned a, unsigned b, unsigned c) { return __vmin##S##2(__vmin##S##2(a, b), c); }       \
    inline unsigned __viaddmax_##S##16x2(unsigned a, unsigned b, unsigned c) { return __vmax##S##2(__vadd2(a, b), c); }          \
    inline unsigned __viaddmin_##S##16x2(unsigned a, unsigned b, unsigned c) { return __vmin##S##2(__vadd2(a, b), c); }
SIM_DPX_PAIR(s)
SIM_DPX_PAIR(u)
#undef SIM_DPX_PAIR
// Both extremes with, for each half, whether the first operand was taken.
#define SIM_DPX_CHOICE(name, L, sign)                                                          \
    inline unsigned name(unsigned a, unsigned b, bool* const hi, bool* const lo) {             \
        *hi = static_cast<L>(a >> 16) sign static_cast<L>(b >> 16);                            \
        *lo = static_cast<L>(a) sign static_cast<L>(b);                                        \
        return ((*hi ? a : b) & 0xffff0000u) | ((*lo ? a : b) & 0xffffu);                      \
    }
SIM_DPX_CHOICE(__vibmax_s16x2, short, >=)
SIM_DPX_CHOICE(__vibmin_s16x2, short, <=)
SIM_DPX_CHOICE(__vibmax_u16x2, unsigned short, >=)
SIM_DPX_CHOICE(__vibmin_u16x2, unsigned short, <=)
#undef SIM_DPX_CHOICE
inline unsigned __vimax_s16x2_relu(unsigned a, unsigned b) { return __vmaxs2(__vmaxs2(a, b), 0u); }
inline unsigned __vimin_s16x2_relu(unsigned a, unsigned b) { return __vmaxs2(__vmins2(a, b), 0u); }
inline unsigned __vimax3_s16x2_relu(unsigned a, unsigned b, unsigned c) { return __vmaxs2(__vimax3_s16x2(a, b, c), 0u); }
inline unsigned __vimin3_s16x2_relu(unsigned a, unsigned b, unsigned c) { return __vmaxs2(__vimin3_s16x2(a, b, c), 0u); }
inline unsigned __viaddmax_s16x2_relu(unsigned a, unsigned b, unsigned c) { return __vmaxs2(__viaddmax_s16x2(a, b, c), 0u); }
inline unsigned __viaddmin_s16x2_relu(unsigned a, unsigned b, unsigned c) { return __vmaxs2(__viaddmin_s16x2(a, b, c), 0u); }

// Dot products of packed integers, added to c with wrap-around. -------------------------------------------------
namespace simv {
template <class A, class B, int count>
inline unsigned dot(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < count; ++i)
        c += static_cast<unsigned>(static_cast<int>(static_cast<A>(a >> (i * 8 * static_cast<int>(sizeof(A))))) *
                                   static_cast<int>(static_cast<B>(b >> (i * 8))));
    return c;
}
template <class To, class From>
inline To same_bits(From v) { return simh::bits<To>(v); }
}  // namespace simv
inline int __dp4a(int a, int b, int c) {
    return static_cast<int>(simv::dot<signed char, signed char, 4>(static_cast<unsigned>(a), static_cast<unsigned>(b), static_cast<unsigned>(c)));
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) { return simv::dot<unsigned char, unsigned char, 4>(a, b, c); }
inline int __dp4a(char4 a, char4 b, int c) { return __dp4a(simv::same_bits<int>(a), simv::same_bits<int>(b), c); }
inline unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) { return __dp4a(simv::same_bits<unsigned>(a), simv::same_bits<unsigned>(b), c); }
inline int __dp2a_lo(int a, int b, int c) {
    return static_cast<int>(simv::dot<short, signed char, 2>(static_cast<unsigned>(a), static_cast<unsigned>(b), static_cast<unsigned>(c)));
}
inline int __dp2a_hi(int a, int b, int c) { return __dp2a_lo(a, static_cast<int>(static_cast<unsigned>(b) >> 16), c); }
inline unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) { return simv::dot<unsigned short, unsigned char, 2>(a, b, c); }
inline unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) { return __dp2a_lo(a, b >> 16, c); }
inline int __dp2a_lo(short2 a, char4 b, int c) { return __dp2a_lo(simv::same_bits<int>(a), simv::same_bits<int>(b), c); }
inline int __dp2a_hi(short2 a, char4 b, int c) { return __dp2a_hi(simv::same_bits<int>(a), simv::same_bits<int>(b), c); }
inline unsigned __dp2a_lo(ushort2 a, uchar4 b, unsigned c) { return __dp2a_lo(simv::same_bits<unsigned>(a), simv::same_bits<unsigned>(b), c); }
inline unsigned __dp2a_hi(ushort2 a, uchar4 b, unsigned c) { return __dp2a_hi(simv::same_bits<unsigned>(a), simv::same_bits<unsigned>(b), c); }
