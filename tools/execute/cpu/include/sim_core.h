// The device language on a CPU: coordinates, shared memory, barriers, warp primitives.
// Included before every kernel; implemented by native/runtime.cpp inside the runner.
#pragma once

#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include "sim_casts.h"
#include "sim_local.h"

#define CUDA_HARNESS_EXECUTOR_CPU 1

#define __global__
#define __device__
#define __host__
#define __constant__ __attribute__((visibility("default"), used))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__
#define __cluster_dims__(...)
#define __maxnreg__(...)
#define __nv_pure__
#define __builtin_align__(n) __attribute__((aligned(n)))

#define SIM_INLINE static inline __attribute__((always_inline))
#ifdef SIM_CHECK
// Bookkeeping of the executor itself is not watched by the executor.
#define SIM_UNWATCHED __attribute__((no_sanitize("thread"), noinline))
#else
#define SIM_UNWATCHED inline
#endif

struct uint3;
struct dim3;

// ---- vector types, with CUDA's sizes and alignments ----
// Assignment is spelled out so that check mode sees the store of a value that a function returns.
#define SIM_VEC1(N, T)                                                                             \
  struct N##1 {                                                                                    \
    T x;                                                                                           \
  };                                                                                               \
  SIM_INLINE N##1 make_##N##1(T x) { return {x}; }
#define SIM_VEC2(N, T, A)                                                                          \
  struct __attribute__((aligned(A))) N##2 {                                                        \
    T x, y;                                                                                        \
  };                                                                                               \
  SIM_INLINE N##2 make_##N##2(T x, T y) { return {x, y}; }
#define SIM_VEC3(N, T)                                                                             \
  struct N##3 {                                                                                    \
    T x, y, z;                                                                                     \
  };                                                                                               \
  SIM_INLINE N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; }
#define SIM_VEC4(N, T, A)                                                                          \
  struct __attribute__((aligned(A))) N##4 {                                                        \
    T x, y, z, w;                                                                                  \
  };                                                                                               \
  SIM_INLINE N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define SIM_VECS(N, T, A2, A4) SIM_VEC1(N, T) SIM_VEC2(N, T, A2) SIM_VEC3(N, T) SIM_VEC4(N, T, A4)

SIM_VECS(char, signed char, 2, 4)
SIM_VECS(uchar, unsigned char, 2, 4)
SIM_VECS(short, short, 4, 8)
SIM_VECS(ushort, unsigned short, 4, 8)
SIM_VECS(int, int, 8, 16)
SIM_VECS(float, float, 8, 16)
SIM_VECS(long, long, 16, 16)
SIM_VECS(ulong, unsigned long, 16, 16)
SIM_VECS(longlong, long long, 16, 16)
SIM_VECS(ulonglong, unsigned long long, 16, 16)
SIM_VECS(double, double, 16, 16)
// The four-lane types of eight-byte elements with the alignment in the name.
#define SIM_VEC4_ALIGNED(N, T, A)                                                                  \
  struct __attribute__((aligned(A))) N##4_##A##a {                                                 \
    T x, y, z, w;                                                                                  \
  };                                                                                               \
  SIM_INLINE N##4_##A##a make_##N##4_##A##a(T x, T y, T z, T w) { return {x, y, z, w}; }
#define SIM_VEC4_BOTH(N, T) SIM_VEC4_ALIGNED(N, T, 16) SIM_VEC4_ALIGNED(N, T, 32)
SIM_VEC4_BOTH(double, double)
SIM_VEC4_BOTH(long, long)
SIM_VEC4_BOTH(ulong, unsigned long)
SIM_VEC4_BOTH(longlong, long long)
SIM_VEC4_BOTH(ulonglong, unsigned long long)
SIM_VEC1(uint, unsigned)
SIM_VEC2(uint, unsigned, 8)
SIM_VEC4(uint, unsigned, 16)
struct uint3 {
  unsigned x, y, z;
};
SIM_INLINE uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return {x, y, z}; }
};

// ---- coordinates of the running thread ----
struct sim_context {
  uint3 thread;
  uint3 block;
  uint3 block_dim;
  uint3 grid_dim;
  char *shared;   // static shared memory of this block
  char *dynamic;  // dynamic shared memory of this block
  unsigned linear;
  unsigned lane;
  unsigned warp;
  unsigned dynamic_bytes;
};
extern __thread sim_context sim_here __attribute__((tls_model("initial-exec")));

#define threadIdx (::sim_here.thread)
#define blockIdx (::sim_here.block)
#define blockDim (reinterpret_cast<const dim3 &>(::sim_here.block_dim))
#define gridDim (reinterpret_cast<const dim3 &>(::sim_here.grid_dim))
#define warpSize 32

// ---- services of the runtime ----
extern "C" {
// Reserve room for one shared variable of the program; returns its offset in every block's shared memory.
unsigned sim_shared_reserve(size_t bytes, size_t align, const char *name);
// Block barrier at a source line; `kind` 0 none, 1 count, 2 and, 3 or; returns the reduced predicate.
int sim_barrier(int kind, int predicate, int line);
// Warp rendezvous: each lane of `mask` gives `value`, and gets the value of `source` (a lane).
uint64_t sim_warp_exchange(unsigned mask, uint64_t value, int source, int line);
// Warp rendezvous: each lane of `mask` gives `value`; `table` receives the values of all lanes of the mask.
void sim_warp_gather(unsigned mask, uint64_t value, uint64_t *table, int line);
// Lanes of this warp that exist and have not ended, as a convergence point would see them.
unsigned sim_active_mask(int line);
// Barrier over every block of a cooperative launch.
void sim_grid_barrier(int line);
// Barrier over `count` threads of the block that name the same `id`.
void sim_named_barrier(int id, int count, int line);
void sim_yield(void);
void sim_before_change(void);
void sim_swap_failed(void);
void sim_fence(void);
void sim_returned_early(void);
__attribute__((noreturn)) void sim_trap(const char *what, int line);
// An address that the hardware would refuse: `what` names the access and the alignment it needs.
// Copies in the background, of the calling thread: what is issued becomes due when its batch is waited for.
struct sim_copy {
  void *to;
  unsigned size;
  unsigned char bytes[16];
};
void sim_copy_issue(void *to, const unsigned char *bytes, unsigned size);
void sim_copy_commit(void);
// The next copy that is due when all but the newest `prior` committed batches are waited for, open ones too with
// `all`; 0 when there is none.
int sim_copy_due(unsigned prior, int all, struct sim_copy *copy);
__attribute__((noreturn)) void sim_misaligned(const void *address, const char *what, int line);
uint64_t sim_clock(void);
#ifdef SIM_CHECK
void sim_note_atomic(const void *address, unsigned bytes, int writes);
void sim_note_access(const void *address, unsigned bytes, int writes, int line);
#endif
}

#ifdef SIM_CHECK
#define SIM_NOTE_ATOMIC(p, n, w) ::sim_note_atomic((const void *)(p), (n), (w))
#else
#define SIM_NOTE_ATOMIC(p, n, w) ((void)0)
#endif

#define SIM_LINE int sim_line = __builtin_LINE()

template <class T> struct sim_unknown_size;

// Static shared variables: the rewriter turns `__shared__ T v[..];` into a reference made here.
template <class T, class Tag> SIM_UNWATCHED unsigned sim_shared_offset(const char *name) {
  static const unsigned offset = sim_shared_reserve(sizeof(T), alignof(T), name);
  return offset;
}
template <class T, class Tag> SIM_INLINE T &sim_shared_variable(const char *name) {
  return *reinterpret_cast<T *>(sim_here.shared + sim_shared_offset<T, Tag>(name));
}
template <class T> SIM_INLINE T *sim_dynamic_shared() { return reinterpret_cast<T *>(sim_here.dynamic); }
// `extern __shared__ T v[];` at file scope.
template <class T> struct sim_dynamic_view {
  operator T *() const { return sim_dynamic_shared<T>(); }
  template <class I> T &operator[](I i) const { return sim_dynamic_shared<T>()[i]; }
};

// Device variables: check mode keeps unused room between them, in both sections that they may lie in, and a table.
struct sim_global {
  const char *name;  // null: room that nothing may touch
  const void *at;
  unsigned long bytes, item;
};
#ifdef SIM_CHECK
#define SIM_JOIN_(a, b) a##b
#define SIM_JOIN(a, b) SIM_JOIN_(a, b)
#define SIM_IN_ORDER __attribute__((no_reorder))
#define SIM_ENTRY(N, NAME, AT, BYTES, ITEM)                                                        \
  static const sim_global SIM_JOIN(sim_entry_, N) __attribute__((used, section("sim_globals"))) = {NAME, (const void *)(AT), BYTES, ITEM};
// Room in each of the three places where the compiler puts variables: set ones, unset ones, unset static ones.
#define SIM_FENCE_(N)                                                                              \
  char SIM_JOIN(sim_room_, N)[64] __attribute__((used, no_reorder, aligned(4)));                   \
  static char SIM_JOIN(sim_unset_room_, N)[64] __attribute__((used, no_reorder, aligned(4)));      \
  static char SIM_JOIN(sim_set_room_, N)[64] __attribute__((used, no_reorder, aligned(4))) = {1};  \
  SIM_ENTRY(SIM_JOIN(g, N), nullptr, SIM_JOIN(sim_room_, N), 64, 1)                                \
  SIM_ENTRY(SIM_JOIN(u, N), nullptr, SIM_JOIN(sim_unset_room_, N), 64, 1)                          \
  SIM_ENTRY(SIM_JOIN(s, N), nullptr, SIM_JOIN(sim_set_room_, N), 64, 1)
#define SIM_FENCE SIM_FENCE_(__COUNTER__)
#define SIM_GLOBAL(NAME)                                                                           \
  SIM_ENTRY(NAME, #NAME, &NAME, sizeof(NAME), sizeof(typename ::std::remove_all_extents<decltype(NAME)>::type))
#else
#define SIM_IN_ORDER
#define SIM_FENCE
#define SIM_GLOBAL(NAME)
#endif

// ---- barriers and fences ----
SIM_INLINE void __syncthreads(SIM_LINE) { sim_barrier(0, 0, sim_line); }
SIM_INLINE int __syncthreads_count(int p, SIM_LINE) { return sim_barrier(1, p != 0, sim_line); }
SIM_INLINE int __syncthreads_and(int p, SIM_LINE) { return sim_barrier(2, p != 0, sim_line); }
SIM_INLINE int __syncthreads_or(int p, SIM_LINE) { return sim_barrier(3, p != 0, sim_line); }
SIM_INLINE void __barrier_sync(unsigned id, SIM_LINE) {
  if (id == 0) sim_barrier(0, 0, sim_line);
  else sim_named_barrier((int)id, (int)(blockDim.x * blockDim.y * blockDim.z), sim_line);
}
SIM_INLINE void __barrier_sync_count(unsigned id, unsigned count, SIM_LINE) { sim_named_barrier((int)id, (int)count, sim_line); }
SIM_INLINE void __threadfence() { sim_fence(); }
#ifdef SIM_CHECK
SIM_INLINE void __threadfence_block() { sim_fence(); }
#else
SIM_INLINE void __threadfence_block() { __asm__ volatile("" ::: "memory"); }
#endif
SIM_INLINE void __threadfence_system() { sim_fence(); }
SIM_INLINE void __nanosleep(unsigned) { sim_yield(); }
SIM_INLINE void __trap(SIM_LINE) { sim_trap("__trap()", sim_line); }
SIM_INLINE void __brkpt() {}
SIM_INLINE long long clock64() { return (long long)sim_clock(); }
SIM_INLINE int sim_clock_int() { return (int)sim_clock(); }
#define clock() sim_clock_int()
SIM_INLINE uint64_t __globaltimer() { return sim_clock(); }

// ---- warp primitives ----
SIM_INLINE unsigned sim_lane() { return sim_here.lane; }
SIM_INLINE void __syncwarp(unsigned mask = 0xffffffffu, SIM_LINE) { sim_warp_exchange(mask, 0, -1, sim_line); }
SIM_INLINE unsigned __activemask(SIM_LINE) { return sim_active_mask(sim_line); }

template <class T> SIM_INLINE uint64_t sim_bits_of(T v) {
  static_assert(sizeof(T) <= 8, "cuda_harness unsupported: a shuffle of more than 8 bytes");
  uint64_t b = 0;
  memcpy(&b, &v, sizeof(T));
  return b;
}
template <class T> SIM_INLINE T sim_from_bits(uint64_t b) {
  T v;
  memcpy((void *)&v, &b, sizeof(T));
  return v;
}
SIM_INLINE int sim_source_idx(int lane, int src, int width) {
  int base = lane & ~(width - 1);
  return base + (src & (width - 1));
}
template <class T> SIM_INLINE T __shfl_sync(unsigned mask, T v, int src, int width = 32, SIM_LINE) {
  return sim_from_bits<T>(
      sim_warp_exchange(mask, sim_bits_of(v), sim_source_idx((int)sim_lane(), src, width), sim_line));
}
template <class T> SIM_INLINE T __shfl_up_sync(unsigned mask, T v, unsigned delta, int width = 32, SIM_LINE) {
  int lane = (int)sim_lane(), src = lane - (int)delta, low = lane & ~(width - 1);
  return sim_from_bits<T>(sim_warp_exchange(mask, sim_bits_of(v), src < low ? lane : src, sim_line));
}
template <class T> SIM_INLINE T __shfl_down_sync(unsigned mask, T v, unsigned delta, int width = 32, SIM_LINE) {
  int lane = (int)sim_lane(), src = lane + (int)delta, high = (lane & ~(width - 1)) + width - 1;
  return sim_from_bits<T>(sim_warp_exchange(mask, sim_bits_of(v), src > high ? lane : src, sim_line));
}
template <class T> SIM_INLINE T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32, SIM_LINE) {
  int lane = (int)sim_lane(), src = lane ^ with, high = (lane & ~(width - 1)) + width - 1;
  return sim_from_bits<T>(sim_warp_exchange(mask, sim_bits_of(v), src > high ? lane : src, sim_line));
}

SIM_INLINE unsigned __ballot_sync(unsigned mask, int p, SIM_LINE) {
  uint64_t table[32];
  sim_warp_gather(mask, p != 0, table, sim_line);
  unsigned r = 0;
  for (int i = 0; i < 32; ++i)
    if ((mask >> i & 1) && table[i]) r |= 1u << i;
  return r;
}
SIM_INLINE int __any_sync(unsigned mask, int p, SIM_LINE) { return __ballot_sync(mask, p, sim_line) != 0; }
SIM_INLINE int __all_sync(unsigned mask, int p, SIM_LINE) { return __ballot_sync(mask, !p, sim_line) == 0; }
SIM_INLINE int __uni_sync(unsigned mask, int p, SIM_LINE) {
  unsigned b = __ballot_sync(mask, p, sim_line);
  return b == 0 || b == mask;
}
template <class T> SIM_INLINE unsigned __match_any_sync(unsigned mask, T v, SIM_LINE) {
  uint64_t table[32], mine = sim_bits_of(v);
  sim_warp_gather(mask, mine, table, sim_line);
  unsigned r = 0;
  for (int i = 0; i < 32; ++i)
    if ((mask >> i & 1) && table[i] == mine) r |= 1u << i;
  return r;
}
template <class T> SIM_INLINE unsigned __match_all_sync(unsigned mask, T v, int *pred, SIM_LINE) {
  unsigned r = __match_any_sync(mask, v, sim_line);
  *pred = r == mask;
  return r == mask ? mask : 0;
}
#define SIM_REDUCE(NAME, EXPR)                                                                     \
  template <class T> SIM_INLINE T NAME(unsigned mask, T v, SIM_LINE) {                             \
    static_assert(std::is_integral<T>::value, #NAME " takes integers");                            \
    uint64_t table[32];                                                                            \
    sim_warp_gather(mask, sim_bits_of(v), table, sim_line);                                        \
    bool first = true;                                                                             \
    T a = v;                                                                                       \
    for (int i = 0; i < 32; ++i)                                                                   \
      if (mask >> i & 1) {                                                                         \
        T b = sim_from_bits<T>(table[i]);                                                          \
        a = first ? b : (T)(EXPR);                                                                 \
        first = false;                                                                             \
      }                                                                                            \
    return a;                                                                                      \
  }
SIM_REDUCE(__reduce_add_sync, a + b)
SIM_REDUCE(__reduce_min_sync, b < a ? b : a)
SIM_REDUCE(__reduce_max_sync, b > a ? b : a)
SIM_REDUCE(__reduce_and_sync, a &b)
SIM_REDUCE(__reduce_or_sync, a | b)
SIM_REDUCE(__reduce_xor_sync, a ^ b)

// ---- entry points ----
struct sim_kernel {
  const char *name;
  void (*call)(void **arguments);
  unsigned parameters;
  const unsigned *sizes;
};
template <class F, F f> struct sim_entry;
template <class... P, void (*f)(P...)> struct sim_entry<void (*)(P...), f> {
  static constexpr unsigned count = sizeof...(P);
  static constexpr unsigned sizes[sizeof...(P) + 1] = {(unsigned)sizeof(P)..., 0};
  template <size_t... I> SIM_UNWATCHED static void unpack(void **a, std::index_sequence<I...>) {
    f(*reinterpret_cast<typename std::remove_const<typename std::remove_reference<P>::type>::type *>(a[I])...);
  }
  SIM_UNWATCHED static void call(void **a) { unpack(a, std::index_sequence_for<P...>{}); }
};
#define SIM_KERNEL_AS(n, k) {n, sim_entry<decltype(&k), &k>::call, sim_entry<decltype(&k), &k>::count, sim_entry<decltype(&k), &k>::sizes}
