// Conversions of floats to integers as PTX's `cvt.rzi` makes them: they saturate, where C++ leaves the result open.
//
// The rewriter turns casts of the kernel into `sim_to<T>(value)`. Integers of fewer than 32 bits are cut from 32, as nvcc
// does. NaN gives 0, or the lone top bit where 64 bits or a double take part (PTX ISA, "cvt", notes on NaN).
#pragma once
#include <cstdint>
#include <type_traits>

#define SIM_CAST __attribute__((always_inline, no_sanitize("undefined"))) constexpr

namespace simh {

inline SIM_CAST bool is_nan(float x) { return (__builtin_bit_cast(std::uint32_t, x) & 0x7fffffffu) > 0x7f800000u; }
inline SIM_CAST bool is_nan(double x) {
  return (__builtin_bit_cast(std::uint64_t, x) & ~(std::uint64_t{1} << 63)) > std::uint64_t{0x7ff} << 52;
}

/// Wide is an integer of 32 or 64 bits. The bounds are exact in F: `low` is the last value below that must be clamped
/// when it can be told from the lowest integer, else that integer itself.
template <class Wide, class F> inline SIM_CAST Wide clamped(F x) {
  constexpr bool is_signed = std::is_signed<Wide>::value;
  constexpr int width = static_cast<int>(sizeof(Wide)) * 8;
  constexpr Wide top_bit = static_cast<Wide>(std::uint64_t{1} << (width - 1));
  constexpr Wide highest = is_signed ? static_cast<Wide>(~top_bit) : static_cast<Wide>(~Wide{0});
  constexpr Wide lowest = is_signed ? top_bit : Wide{0};
  constexpr F bound = (is_signed ? F(1) : F(2)) * static_cast<F>(std::uint64_t{1} << (width - 1));
  constexpr bool told_apart = sizeof(F) == 8 && width == 32;
#if __FINITE_MATH_ONLY__
  if (is_nan(x)) return sizeof(F) == 8 || width == 64 ? top_bit : Wide{0};
#endif
  if (x < bound && (is_signed ? (told_apart ? x > -bound - F(1) : x >= -bound) : x > F(-1))) return static_cast<Wide>(x);
  if (x >= bound) return highest;
#if !__FINITE_MATH_ONLY__
  if (x != x) return sizeof(F) == 8 || width == 64 ? top_bit : Wide{0};
#endif
  return lowest;
}

template <class T, class F> inline SIM_CAST T saturated(F x) {
  using Unsigned = std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>;
  using Signed = std::conditional_t<sizeof(T) == 8, long long, int>;
  return static_cast<T>(clamped<std::conditional_t<std::is_signed<T>::value, Signed, Unsigned>>(x));
}

template <class T>
constexpr bool is_counted = std::is_integral<T>::value && !std::is_same<std::remove_cv_t<T>, bool>::value && sizeof(T) <= 8;
template <class E>
constexpr bool is_single_or_double = std::is_same<E, float>::value || std::is_same<E, double>::value;

}  // namespace simh

// Numbers by value: a constant needs no address, a lambda no capture, a bit-field no reference.
template <class T, class E, std::enable_if_t<std::is_arithmetic<E>::value || std::is_enum<E>::value, int> = 0>
inline SIM_CAST T sim_to(E e) {
  if constexpr (simh::is_counted<T> && simh::is_single_or_double<E>)
    return simh::saturated<std::remove_cv_t<T>>(e);
  else
    return (T)e;
}
template <class T, class E, std::enable_if_t<!(std::is_arithmetic<std::remove_cv_t<E>>::value || std::is_enum<std::remove_cv_t<E>>::value), int> = 0>
inline SIM_CAST T sim_to(const E& e) {
  return (T)const_cast<E&>(e);
}

/// An expression on its way into a variable, parameter or result of whatever arithmetic type.
template <class E> struct sim_on_its_way {
  E value;
  template <class T> SIM_CAST operator T() const { return sim_to<T>(value); }
};
template <class E> inline SIM_CAST sim_on_its_way<E> sim_implicitly(E e) { return {e}; }

// `left op= right` where the result is cut to an integer.
#define SIM_COMPOUND(name, op)                                                        \
  template <class L, class R> inline SIM_CAST L& sim_##name(L& left, const R& right) { \
    left = sim_to<std::remove_cv_t<L>>(left op right);                                \
    return left;                                                                      \
  }
SIM_COMPOUND(add_to, +)
SIM_COMPOUND(take_from, -)
SIM_COMPOUND(multiply_into, *)
SIM_COMPOUND(divide_into, /)
#undef SIM_COMPOUND
