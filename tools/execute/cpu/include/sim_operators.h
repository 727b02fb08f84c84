// Function objects of cuda:: and cuda::std:: that reductions take.
#pragma once
#include "sim_core.h"

namespace cuda {
namespace std {
#define SIM_OPERATOR(name, expression)                                                              \
    template <class T = void>                                                                       \
    struct name {                                                                                   \
        constexpr auto operator()(const T& a, const T& b) const { return (expression); }            \
    };                                                                                              \
    template <>                                                                                     \
    struct name<void> {                                                                             \
        template <class A, class B>                                                                 \
        constexpr auto operator()(const A& a, const B& b) const { return (expression); }            \
    };
SIM_OPERATOR(plus, a + b)
SIM_OPERATOR(minus, a - b)
SIM_OPERATOR(multiplies, a * b)
SIM_OPERATOR(divides, a / b)
SIM_OPERATOR(modulus, a % b)
SIM_OPERATOR(bit_and, a & b)
SIM_OPERATOR(bit_or, a | b)
SIM_OPERATOR(bit_xor, a ^ b)
SIM_OPERATOR(logical_and, a && b)
SIM_OPERATOR(logical_or, a || b)
SIM_OPERATOR(equal_to, a == b)
SIM_OPERATOR(not_equal_to, a != b)
SIM_OPERATOR(less, a < b)
SIM_OPERATOR(greater, a > b)
SIM_OPERATOR(less_equal, a <= b)
SIM_OPERATOR(greater_equal, a >= b)
#undef SIM_OPERATOR
template <class T = void> struct negate { constexpr T operator()(const T& a) const { return -a; } };
template <> struct negate<void> { template <class A> constexpr auto operator()(const A& a) const { return -a; } };
struct identity { template <class A> constexpr A&& operator()(A&& a) const { return static_cast<A&&>(a); } };
}  // namespace std

#define SIM_CHOICE(name, test)                                                                      \
    template <class T = void>                                                                       \
    struct name {                                                                                   \
        constexpr T operator()(const T& a, const T& b) const { return (test) ? b : a; }             \
    };                                                                                              \
    template <>                                                                                     \
    struct name<void> {                                                                             \
        template <class A, class B>                                                                 \
        constexpr auto operator()(const A& a, const B& b) const {                                   \
            return (test) ? static_cast<::std::common_type_t<A, B>>(b) : static_cast<::std::common_type_t<A, B>>(a); \
        }                                                                                           \
    };
SIM_CHOICE(maximum, a < b)
SIM_CHOICE(minimum, b < a)
#undef SIM_CHOICE
}  // namespace cuda
