// The compiler's own atomics of CUDA 12.8 and later (`__nv_atomic_*`), with their orders and scopes, and 16-byte forms.
//
// Every scope is as wide as the process here. An order stronger than relaxed is a fence on the sides it orders.
#pragma once
#include "sim_atomics.h"

#define __NV_ATOMIC_RELAXED 0
#define __NV_ATOMIC_CONSUME 1
#define __NV_ATOMIC_ACQUIRE 2
#define __NV_ATOMIC_RELEASE 3
#define __NV_ATOMIC_ACQ_REL 4
#define __NV_ATOMIC_SEQ_CST 5
#define __NV_THREAD_SCOPE_THREAD 0
#define __NV_THREAD_SCOPE_BLOCK 1
#define __NV_THREAD_SCOPE_CLUSTER 2
#define __NV_THREAD_SCOPE_DEVICE 3
#define __NV_THREAD_SCOPE_SYSTEM 4

namespace sim {
template <class T> struct given { using type = T; };
template <class T> using given_t = typename given<T>::type;  // a parameter that T is not deduced from

struct ordered {
  int order;
  explicit ordered(int o) : order(o) {
    if (order >= __NV_ATOMIC_RELEASE) sim_fence();
  }
  ~ordered() {
    if (order != __NV_ATOMIC_RELAXED && order != __NV_ATOMIC_RELEASE) sim_fence();
  }
};

// Sixteen bytes at once; in check mode all threads are fibers of one OS thread.
template <class T> inline bool swap16(T *p, T *expected, const T &wanted) {
  static_assert(sizeof(T) == 16, "sixteen bytes");
#ifdef SIM_CHECK
  SIM_NOTE_ATOMIC(p, 16, 1);
#endif
  uint64_t low, high, new_low, new_high;
  __builtin_memcpy(&low, expected, 8);
  __builtin_memcpy(&high, reinterpret_cast<const char *>(expected) + 8, 8);
  __builtin_memcpy(&new_low, &wanted, 8);
  __builtin_memcpy(&new_high, reinterpret_cast<const char *>(&wanted) + 8, 8);
  bool done;
  asm volatile("lock cmpxchg16b (%[at])"
               : "=@ccz"(done), "+a"(low), "+d"(high)
               : [at] "r"(p), "b"(new_low), "c"(new_high)
               : "memory");
  __builtin_memcpy(expected, &low, 8);
  __builtin_memcpy(reinterpret_cast<char *>(expected) + 8, &high, 8);
  return done;
}

template <class T> inline T load(T *p) {
  if constexpr (sizeof(T) == 16) {
    T seen{};
    swap16(p, &seen, seen);
    return seen;
  } else {
    using W = typename word_of<sizeof(T)>::type;
    const W word = __atomic_load_n(reinterpret_cast<W *>(const_cast<std::remove_cv_t<T> *>(p)), __ATOMIC_RELAXED);
    return __builtin_bit_cast(T, word);
  }
}
template <class T> inline bool swap_if(T *p, T *expected, const T &wanted) {
  if constexpr (sizeof(T) == 16) {
    return swap16(p, expected, wanted);
  } else {
    using W = typename word_of<sizeof(T)>::type;
    W seen = __builtin_bit_cast(W, *expected);
    const bool done = __atomic_compare_exchange_n(reinterpret_cast<W *>(p), &seen, __builtin_bit_cast(W, wanted), false,
                                                  __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    *expected = __builtin_bit_cast(T, seen);
    return done;
  }
}
template <class T> inline T swap(T *p, const T &wanted) {
  if constexpr (sizeof(T) == 16) {
    T seen = load(p);
    while (!swap16(p, &seen, wanted)) {
    }
    return seen;
  } else {
    using W = typename word_of<sizeof(T)>::type;
    const W word = __atomic_exchange_n(reinterpret_cast<W *>(p), __builtin_bit_cast(W, wanted), __ATOMIC_RELAXED);
    return __builtin_bit_cast(T, word);
  }
}
}  // namespace sim

template <class T> inline T __nv_atomic_load_n(T *p, int order, int = __NV_THREAD_SCOPE_SYSTEM) {
  const sim::ordered o(order);
  return sim::load(p);
}
template <class T> inline void __nv_atomic_load(T *p, std::remove_cv_t<T> *to, int order, int = __NV_THREAD_SCOPE_SYSTEM) {
  *to = __nv_atomic_load_n(p, order);
}
template <class T> inline void __nv_atomic_store_n(T *p, sim::given_t<T> v, int order, int = __NV_THREAD_SCOPE_SYSTEM) {
  const sim::ordered o(order);
  if constexpr (sizeof(T) == 16)
    sim::swap(p, v);
  else
    __atomic_store_n(reinterpret_cast<typename sim::word_of<sizeof(T)>::type *>(p),
                     __builtin_bit_cast(typename sim::word_of<sizeof(T)>::type, v), __ATOMIC_RELAXED);
}
template <class T> inline void __nv_atomic_store(T *p, T *from, int order, int = __NV_THREAD_SCOPE_SYSTEM) {
  __nv_atomic_store_n(p, *from, order);
}
template <class T> inline T __nv_atomic_exchange_n(T *p, sim::given_t<T> v, int order, int = __NV_THREAD_SCOPE_SYSTEM) {
  const sim::ordered o(order);
  SIM_BEFORE_CHANGE();
  return sim::swap(p, v);
}
template <class T> inline void __nv_atomic_exchange(T *p, T *from, T *to, int order, int = __NV_THREAD_SCOPE_SYSTEM) {
  *to = __nv_atomic_exchange_n(p, *from, order);
}
template <class T>
inline bool __nv_atomic_compare_exchange_n(T *p, T *expected, sim::given_t<T> v, bool, int success, int, int = __NV_THREAD_SCOPE_SYSTEM) {
  const sim::ordered o(success);
  SIM_BEFORE_CHANGE();
  const bool done = sim::swap_if(p, expected, v);
  if (!done) sim_swap_failed();
  return done;
}
template <class T>
inline bool __nv_atomic_compare_exchange(T *p, T *expected, T *from, bool weak, int success, int failure, int = __NV_THREAD_SCOPE_SYSTEM) {
  return __nv_atomic_compare_exchange_n(p, expected, *from, weak, success, failure);
}
#define SIM_NV_ATOMIC(name, expression)                                                                          \
  template <class T> inline T __nv_atomic_fetch_##name(T *p, sim::given_t<T> v, int order, int = __NV_THREAD_SCOPE_SYSTEM) { \
    const sim::ordered o(order);                                                                                 \
    return sim::atomic_change(p, [v](T a) -> T { return expression; });                                          \
  }                                                                                                              \
  template <class T> inline void __nv_atomic_##name(T *p, sim::given_t<T> v, int order, int = __NV_THREAD_SCOPE_SYSTEM) { \
    __nv_atomic_fetch_##name(p, v, order);                                                                       \
  }
SIM_NV_ATOMIC(add, a + v)
SIM_NV_ATOMIC(sub, a - v)
SIM_NV_ATOMIC(min, v < a ? v : a)
SIM_NV_ATOMIC(max, a < v ? v : a)
SIM_NV_ATOMIC(and, a & v)
SIM_NV_ATOMIC(or, a | v)
SIM_NV_ATOMIC(xor, a ^ v)
#undef SIM_NV_ATOMIC
inline void __nv_atomic_thread_fence(int order, int = __NV_THREAD_SCOPE_SYSTEM) {
  if (order != __NV_ATOMIC_RELAXED) sim_fence();
}

// Any type of sixteen bytes, aligned so (sm_90).
#define SIM_ATOMIC_16(suffix)                                                                                              \
  template <class T, std::enable_if_t<sizeof(T) == 16 && alignof(T) == 16, int> = 0>                                      \
  inline T atomicExch##suffix(T *p, sim::given_t<T> v) {                                                                   \
    SIM_BEFORE_CHANGE();                                                                                                    \
    return sim::swap(p, v);                                                                                                 \
  }                                                                                                                         \
  template <class T, std::enable_if_t<sizeof(T) == 16 && alignof(T) == 16, int> = 0>                                      \
  inline T atomicCAS##suffix(T *p, sim::given_t<T> expected, sim::given_t<T> v) {                                         \
    SIM_BEFORE_CHANGE();                                                                                                    \
    T seen = expected;                                                                                                     \
    if (!sim::swap_if(p, &seen, static_cast<T>(v))) sim_swap_failed();                                                     \
    return seen;                                                                                                           \
  }
SIM_ATOMIC_16()
SIM_ATOMIC_16(_block)
SIM_ATOMIC_16(_system)
#undef SIM_ATOMIC_16
