// cuda::std on the CPU executor: the host's standard library under another name, for the headers that CUDA has.
#pragma once
#include "../../sim_operators.h"

namespace cuda {
namespace std {
// Names declared in cuda::std itself (operators above, atomic, span, ...) hide those of the host.
using namespace ::std;
using ::std::size_t;
using ::std::ptrdiff_t;
template <class T> using remove_cvref_t = ::std::remove_cv_t<::std::remove_reference_t<T>>;
template <class T> struct remove_cvref { typedef remove_cvref_t<T> type; };
template <class T> struct type_identity { typedef T type; };
template <class T> using type_identity_t = T;
template <class To, class From>
inline To bit_cast(const From& from) {
    static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
    To to;
    __builtin_memcpy(static_cast<void*>(&to), &from, sizeof(To));
    return to;
}
}  // namespace std
}  // namespace cuda
