// Conversions shared by the 8- and 16-bit floating-point types, exact in every rounding mode.
//
// A narrow format is given by its exponent width EB and fraction width MB. All arithmetic on narrow types is done
// in float or double and rounded once; where one operation in double could round twice (fma) the double is first
// forced to odd ("round to odd", Boldo and Melquiond 2008), which makes the second rounding exact.
#pragma once
#include <cstdint>
#include <cstring>
#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace simh {

enum class round { nearest, zero, down, up };

template <class To, class From>
inline To bits(const From& from) {
    static_assert(sizeof(To) == sizeof(From), "bit casts keep the size");
    To to;
    __builtin_memcpy(static_cast<void*>(&to), &from, sizeof(To));
    return to;
}

/// Magnitude bits (exponent and fraction, no sign) of |x| in a format with EB exponent and MB fraction bits.
/// Infinity and overflow give `infinity`, by default all-ones exponent and zero fraction. x must not be NaN.
template <int EB, int MB, std::uint32_t infinity = ((1u << EB) - 1u) << MB>
inline std::uint32_t magnitude(double x, round mode) {
    constexpr int lowest = 2 - (1 << (EB - 1));
    const std::uint64_t word = bits<std::uint64_t>(x);
    const bool negative = (word >> 63) != 0;
    const int exponent = static_cast<int>((word >> 52) & 0x7ff) - 1023;
    std::uint64_t fraction = word & ((std::uint64_t{1} << 52) - 1);
    if (exponent == 1024) return infinity;
    if (exponent == -1023) {
        if (fraction == 0) return 0;
    } else {
        fraction |= std::uint64_t{1} << 52;
    }
    int shift = 52 - MB + (exponent < lowest ? lowest - exponent : 0);
    if (shift > 62) shift = 62;
    const std::uint64_t kept = fraction >> shift;
    const std::uint64_t rest = fraction & ((std::uint64_t{1} << shift) - 1);
    const std::uint64_t half = std::uint64_t{1} << (shift - 1);
    bool away = false;
    switch (mode) {
        case round::nearest: away = rest > half || (rest == half && (kept & 1)); break;
        case round::zero: break;
        case round::down: away = negative && rest != 0; break;
        case round::up: away = !negative && rest != 0; break;
    }
    std::uint64_t value = kept + (away ? 1 : 0);
    if (exponent >= lowest) value += static_cast<std::uint64_t>(exponent - lowest) << MB;
    if (value >= infinity) {
        const bool to_infinity = mode == round::nearest || (mode == round::down && negative) ||
                                 (mode == round::up && !negative);
        return to_infinity ? infinity : infinity - 1;
    }
    return static_cast<std::uint32_t>(value);
}

inline std::uint16_t half_from_double(double x, round mode) {
    if (x != x) return 0x7fff;
    const std::uint16_t sign = static_cast<std::uint16_t>(bits<std::uint64_t>(x) >> 48) & 0x8000;
    return static_cast<std::uint16_t>(sign | magnitude<5, 10>(x, mode));
}

inline std::uint16_t bfloat_from_double(double x, round mode) {
    if (x != x) return 0x7fff;
    const std::uint16_t sign = static_cast<std::uint16_t>(bits<std::uint64_t>(x) >> 48) & 0x8000;
    return static_cast<std::uint16_t>(sign | magnitude<8, 7>(x, mode));
}

inline std::uint16_t half_from_float(float x) {
    if (x != x) return 0x7fff;
#if defined(__F16C__)
    return static_cast<std::uint16_t>(_cvtss_sh(x, 0));
#else
    const std::uint32_t word = bits<std::uint32_t>(x);
    const std::uint32_t sign = (word >> 16) & 0x8000u;
    std::uint32_t a = word & 0x7fffffffu;
    if (a >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7c00u);
    if (a < 0x38800000u) {
        // Subnormal: adding 0.5 aligns the last half bit with the last float bit, and the adder rounds.
        const float aligned = bits<float>(a) + 0.5f;
        return static_cast<std::uint16_t>(sign | (bits<std::uint32_t>(aligned) - 0x3f000000u));
    }
    a += 0xfffu + ((a >> 13) & 1u) - 0x38000000u;
    return static_cast<std::uint16_t>(sign | (a >> 13));
#endif
}

inline float float_from_half(std::uint16_t h) {
#if defined(__F16C__)
    return _cvtsh_ss(h);
#else
    const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
    const std::uint32_t a = static_cast<std::uint32_t>(h & 0x7fffu) << 13;
    if (a >= 0x0f800000u) return bits<float>(sign | (a + 0x70000000u));
    return bits<float>(sign | bits<std::uint32_t>(bits<float>(a) * 0x1p112f));
#endif
}

inline std::uint16_t bfloat_from_float(float x) {
    if (x != x) return 0x7fff;
    const std::uint32_t word = bits<std::uint32_t>(x);
    return static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
}

inline float float_from_bfloat(std::uint16_t b) { return bits<float>(static_cast<std::uint32_t>(b) << 16); }

/// The double next to the exact a * b + c whose last bit says whether it is exact; a * b must be exact in double.
inline double fma_to_odd(double a, double b, double c) {
    const double product = a * b;
    const double sum = product + c;
    if (!(sum - sum == 0.0)) return sum;
    const double part = sum - product;
    const double error = (product - (sum - part)) + (c - part);
    if (error == 0.0) return sum;
    std::uint64_t word = bits<std::uint64_t>(sum);
    if (word & 1u) return sum;
    const bool grow = (error > 0.0) == (sum > 0.0);
    word += grow ? 1 : ~std::uint64_t{0};
    return bits<double>(word);
}

/// A 64-bit integer as a double, forced to odd when it does not fit.
template <class Int>
inline double double_to_odd(Int value) {
    const bool negative = value < 0;
    std::uint64_t m = negative ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
    if (m >> 53) m = (m & ~std::uint64_t{0xfff}) | ((m & 0xfff) ? 0x800 : 0);
    const double magnitude_ = static_cast<double>(m);
    return negative ? -magnitude_ : magnitude_;
}

/// Rounds a float or double to an integer value in the given direction.
template <class F>
inline F round_to_integer(F x, round mode) {
    switch (mode) {
        case round::nearest: return static_cast<F>(__builtin_nearbyint(static_cast<double>(x)));
        case round::zero: return static_cast<F>(__builtin_trunc(static_cast<double>(x)));
        case round::down: return static_cast<F>(__builtin_floor(static_cast<double>(x)));
        default: return static_cast<F>(__builtin_ceil(static_cast<double>(x)));
    }
}

/// Saturating conversion to an integer type; NaN gives `nan_value`.
template <class Int>
inline Int to_integer(double x, round mode, Int nan_value = 0) {
    constexpr bool is_signed = static_cast<Int>(-1) < static_cast<Int>(0);
    constexpr int width = static_cast<int>(sizeof(Int)) * 8;
    constexpr Int highest = is_signed ? static_cast<Int>(~(static_cast<std::uint64_t>(1) << (width - 1)))
                                      : static_cast<Int>(~std::uint64_t{0});
    constexpr Int lowest = is_signed ? static_cast<Int>(-highest - 1) : static_cast<Int>(0);
    if (x != x) return nan_value;
    const double whole = round_to_integer(x, mode);
    const double bound = is_signed ? static_cast<double>(std::uint64_t{1} << (width - 1))
                                   : 2.0 * static_cast<double>(std::uint64_t{1} << (width - 1));
    if (whole >= bound) return highest;
    if (whole < static_cast<double>(lowest)) return lowest;
    return static_cast<Int>(whole);
}

}  // namespace simh
