// Atomic operations of the device language, for the types that CUDA has; two workers may run blocks at once.
//
// Everything goes through the compiler's own atomic builtins: check mode sees each as one atomic access at the
// place of the call. Orders are relaxed, as CUDA's atomics are. A try that changes nothing (a lock that is taken,
// a flag that is polled) lets the other threads of the worker run.
#pragma once
#include "sim_core.h"

namespace sim {
template <size_t N> struct word_of;
template <> struct word_of<1> { using type = uint8_t; };
template <> struct word_of<2> { using type = uint16_t; };
template <> struct word_of<4> { using type = uint32_t; };
template <> struct word_of<8> { using type = uint64_t; };

// Read, change, store as one step, for types without a builtin of their own. The weak form tells check mode that
// this is no compare-and-swap of the kernel's own.
template <class T, class F> SIM_INLINE T atomic_change(T *p, F change) {
  using W = typename word_of<sizeof(T)>::type;
  W *const at = reinterpret_cast<W *>(p);
  W seen = __atomic_load_n(at, __ATOMIC_RELAXED);
  for (;;) {
    T old;
    __builtin_memcpy(&old, &seen, sizeof(T));
    const T next = change(old);
    W wanted;
    __builtin_memcpy(&wanted, &next, sizeof(T));
    if (__atomic_compare_exchange_n(at, &seen, wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) return old;
  }
}
}  // namespace sim

#ifdef SIM_CHECK
#define SIM_BEFORE_CHANGE() sim_before_change()
#else
#define SIM_BEFORE_CHANGE() (void)0
#endif

#define SIM_ATOMIC_SCOPES(NAME, T, PARAMETERS, BODY)             \
  SIM_INLINE T NAME PARAMETERS BODY                              \
  SIM_INLINE T NAME##_block PARAMETERS BODY                      \
  SIM_INLINE T NAME##_system PARAMETERS BODY

#define SIM_ATOMIC_INTEGER(T)                                                                           \
  SIM_ATOMIC_SCOPES(atomicAdd, T, (T * p, T v), {                                                       \
    if (__builtin_expect(v == 0, 0)) sim_yield();                                                       \
    return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);                                                  \
  })                                                                                                    \
  SIM_ATOMIC_SCOPES(atomicExch, T, (T * p, T v), {                                                      \
    SIM_BEFORE_CHANGE();                                                                                \
    const T old = __atomic_exchange_n(p, v, __ATOMIC_RELAXED);                                          \
    if (__builtin_expect(old == v, 0)) sim_yield();                                                     \
    return old;                                                                                         \
  })                                                                                                    \
  SIM_ATOMIC_SCOPES(atomicCAS, T, (T * p, T expected, T v), {                                           \
    SIM_BEFORE_CHANGE();                                                                                \
    T seen = expected;                                                                                  \
    if (!__atomic_compare_exchange_n(p, &seen, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) sim_swap_failed(); \
    return seen;                                                                                        \
  })                                                                                                    \
  SIM_ATOMIC_SCOPES(atomicAnd, T, (T * p, T v), { return __atomic_fetch_and(p, v, __ATOMIC_RELAXED); }) \
  SIM_ATOMIC_SCOPES(atomicOr, T, (T * p, T v), {                                                        \
    if (__builtin_expect(v == 0, 0)) sim_yield();                                                       \
    return __atomic_fetch_or(p, v, __ATOMIC_RELAXED);                                                   \
  })                                                                                                    \
  SIM_ATOMIC_SCOPES(atomicXor, T, (T * p, T v), { return __atomic_fetch_xor(p, v, __ATOMIC_RELAXED); })

#define SIM_ATOMIC_EXTREMES(T)                                                                               \
  SIM_ATOMIC_SCOPES(atomicMin, T, (T * p, T v), { return ::sim::atomic_change(p, [v](T a) { return v < a ? v : a; }); }) \
  SIM_ATOMIC_SCOPES(atomicMax, T, (T * p, T v), { return ::sim::atomic_change(p, [v](T a) { return v > a ? v : a; }); })

#define SIM_ATOMIC_FLOATING(T)                                                                               \
  SIM_ATOMIC_SCOPES(atomicAdd, T, (T * p, T v), { return ::sim::atomic_change(p, [v](T a) { return a + v; }); })

SIM_ATOMIC_INTEGER(int)
SIM_ATOMIC_INTEGER(unsigned)
SIM_ATOMIC_INTEGER(unsigned long long)
SIM_ATOMIC_EXTREMES(int)
SIM_ATOMIC_EXTREMES(unsigned)
SIM_ATOMIC_EXTREMES(long long)
SIM_ATOMIC_EXTREMES(unsigned long long)
SIM_ATOMIC_FLOATING(float)
SIM_ATOMIC_FLOATING(double)

SIM_ATOMIC_SCOPES(atomicSub, int, (int *p, int v), { return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED); })
SIM_ATOMIC_SCOPES(atomicSub, unsigned, (unsigned *p, unsigned v), { return __atomic_fetch_sub(p, v, __ATOMIC_RELAXED); })
SIM_ATOMIC_SCOPES(atomicExch, float, (float *p, float v), {
  SIM_BEFORE_CHANGE();
  const unsigned old = __atomic_exchange_n(reinterpret_cast<unsigned *>(p), __builtin_bit_cast(unsigned, v), __ATOMIC_RELAXED);
  return __builtin_bit_cast(float, old);
})
SIM_ATOMIC_SCOPES(atomicInc, unsigned, (unsigned *p, unsigned limit),
                  { return ::sim::atomic_change(p, [limit](unsigned a) { return a >= limit ? 0u : a + 1u; }); })
SIM_ATOMIC_SCOPES(atomicDec, unsigned, (unsigned *p, unsigned limit),
                  { return ::sim::atomic_change(p, [limit](unsigned a) { return a == 0u || a > limit ? limit : a - 1u; }); })
SIM_ATOMIC_SCOPES(atomicCAS, unsigned short, (unsigned short *p, unsigned short expected, unsigned short v), {
  SIM_BEFORE_CHANGE();
  unsigned short seen = expected;
  if (!__atomic_compare_exchange_n(p, &seen, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) sim_swap_failed();
  return seen;
})
// Vector forms are atomic in each element, not as a whole.
SIM_ATOMIC_SCOPES(atomicAdd, float2, (float2 *p, float2 v),
                  { return make_float2(atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y)); })
SIM_ATOMIC_SCOPES(atomicAdd, float4, (float4 *p, float4 v), {
  return make_float4(atomicAdd(&p->x, v.x), atomicAdd(&p->y, v.y), atomicAdd(&p->z, v.z), atomicAdd(&p->w, v.w));
})
