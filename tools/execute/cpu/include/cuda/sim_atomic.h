// cuda::atomic and cuda::atomic_ref: every scope is the widest one here. Acquire and release order what check mode
// sees through the fence of the core; a load lets other threads run, because loads are what spin loops are made of.
#pragma once
#include "../sim_core.h"

namespace cuda {
enum thread_scope { thread_scope_system = 0, thread_scope_device = 1, thread_scope_block = 2, thread_scope_thread = 10 };

namespace std {
enum memory_order {
    memory_order_relaxed = __ATOMIC_RELAXED, memory_order_consume = __ATOMIC_CONSUME, memory_order_acquire = __ATOMIC_ACQUIRE,
    memory_order_release = __ATOMIC_RELEASE, memory_order_acq_rel = __ATOMIC_ACQ_REL, memory_order_seq_cst = __ATOMIC_SEQ_CST
};
}  // namespace std
using std::memory_order;
using std::memory_order_relaxed;
using std::memory_order_consume;
using std::memory_order_acquire;
using std::memory_order_release;
using std::memory_order_acq_rel;
using std::memory_order_seq_cst;

inline void atomic_thread_fence(memory_order order, thread_scope = thread_scope_system) {
    if (order != memory_order_relaxed) sim_fence();
}
inline void atomic_signal_fence(memory_order) { __asm__ volatile("" ::: "memory"); }

template <::std::size_t Size> struct sim_word;
template <> struct sim_word<1> { typedef ::std::uint8_t type; };
template <> struct sim_word<2> { typedef ::std::uint16_t type; };
template <> struct sim_word<4> { typedef ::std::uint32_t type; };
template <> struct sim_word<8> { typedef ::std::uint64_t type; };

/// The operations, on an object that lies elsewhere.
template <class T>
class sim_atomic_view {
    static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8,
                  "cuda_harness unsupported: atomics of other than 1, 2, 4 or 8 bytes");
    typedef typename sim_word<sizeof(T)>::type Word;
    Word* at_;
    static Word word(const T& v) { Word w; __builtin_memcpy(&w, &v, sizeof(T)); return w; }
    static T value(Word w) { T v; __builtin_memcpy(static_cast<void*>(&v), &w, sizeof(T)); return v; }
    static void before(memory_order order) {
        if (order == memory_order_release || order == memory_order_acq_rel || order == memory_order_seq_cst) sim_fence();
    }
    static void after(memory_order order) {
        if (order != memory_order_relaxed && order != memory_order_release) sim_fence();
    }
    template <class F>
    T change(memory_order order, F next) const {
        before(order);
        Word seen = __atomic_load_n(at_, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(at_, &seen, word(next(value(seen))), true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {}
        after(order);
        return value(seen);
    }

  public:
    explicit sim_atomic_view(const volatile T* at) : at_(reinterpret_cast<Word*>(const_cast<T*>(at))) {}
    T load(memory_order order = memory_order_seq_cst) const {
        sim_yield();
        const Word w = __atomic_load_n(at_, __ATOMIC_SEQ_CST);
        after(order);
        return value(w);
    }
    void store(T v, memory_order order = memory_order_seq_cst) const {
        before(order);
        __atomic_store_n(at_, word(v), __ATOMIC_SEQ_CST);
    }
    T exchange(T v, memory_order order = memory_order_seq_cst) const {
        before(order);
        SIM_BEFORE_CHANGE();
        const Word w = __atomic_exchange_n(at_, word(v), __ATOMIC_SEQ_CST);
        after(order);
        if (w == word(v)) sim_yield();
        return value(w);
    }
    bool compare_exchange(T& expected, T desired, memory_order order = memory_order_seq_cst) const {
        before(order);
        SIM_BEFORE_CHANGE();
        Word seen = word(expected);
        const bool done = __atomic_compare_exchange_n(at_, &seen, word(desired), false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
        after(order);
        if (!done) {
            expected = value(seen);
            sim_swap_failed();
        }
        return done;
    }
    void wait(T old, memory_order order = memory_order_seq_cst) const { while (word(load(order)) == word(old)) {} }
    T fetch_add(T v, memory_order o = memory_order_seq_cst) const { return change(o, [v](T a) { return static_cast<T>(a + v); }); }
    T fetch_sub(T v, memory_order o = memory_order_seq_cst) const { return change(o, [v](T a) { return static_cast<T>(a - v); }); }
    T fetch_and(T v, memory_order o = memory_order_seq_cst) const { return change(o, [v](T a) { return static_cast<T>(a & v); }); }
    T fetch_or(T v, memory_order o = memory_order_seq_cst) const { return change(o, [v](T a) { return static_cast<T>(a | v); }); }
    T fetch_xor(T v, memory_order o = memory_order_seq_cst) const { return change(o, [v](T a) { return static_cast<T>(a ^ v); }); }
    T fetch_min(T v, memory_order o = memory_order_seq_cst) const { return change(o, [v](T a) { return v < a ? v : a; }); }
    T fetch_max(T v, memory_order o = memory_order_seq_cst) const { return change(o, [v](T a) { return a < v ? v : a; }); }
};

#define SIM_ATOMIC_MEMBERS(T, AT)                                                                                             \
    T load(memory_order o = memory_order_seq_cst) const { return sim_atomic_view<T>(AT).load(o); }                            \
    operator T() const { return load(); }                                                                                     \
    void store(T v, memory_order o = memory_order_seq_cst) SIM_ATOMIC_CONST { sim_atomic_view<T>(AT).store(v, o); }           \
    T operator=(T v) SIM_ATOMIC_CONST { store(v); return v; }                                                                 \
    T exchange(T v, memory_order o = memory_order_seq_cst) SIM_ATOMIC_CONST { return sim_atomic_view<T>(AT).exchange(v, o); } \
    bool compare_exchange_weak(T& e, T d, memory_order o = memory_order_seq_cst) SIM_ATOMIC_CONST {                           \
        return sim_atomic_view<T>(AT).compare_exchange(e, d, o);                                                              \
    }                                                                                                                         \
    bool compare_exchange_weak(T& e, T d, memory_order o, memory_order) SIM_ATOMIC_CONST {                                    \
        return sim_atomic_view<T>(AT).compare_exchange(e, d, o);                                                              \
    }                                                                                                                         \
    bool compare_exchange_strong(T& e, T d, memory_order o = memory_order_seq_cst) SIM_ATOMIC_CONST {                         \
        return sim_atomic_view<T>(AT).compare_exchange(e, d, o);                                                              \
    }                                                                                                                         \
    bool compare_exchange_strong(T& e, T d, memory_order o, memory_order) SIM_ATOMIC_CONST {                                  \
        return sim_atomic_view<T>(AT).compare_exchange(e, d, o);                                                              \
    }                                                                                                                         \
    void wait(T old, memory_order o = memory_order_seq_cst) const { sim_atomic_view<T>(AT).wait(old, o); }                    \
    void notify_one() SIM_ATOMIC_CONST {}                                                                                     \
    void notify_all() SIM_ATOMIC_CONST {}                                                                                     \
    static constexpr bool is_always_lock_free = true;                                                                         \
    bool is_lock_free() const { return true; }                                                                                \
    T fetch_add(T v, memory_order o = memory_order_seq_cst) SIM_ATOMIC_CONST { return sim_atomic_view<T>(AT).fetch_add(v, o); } \
    T fetch_sub(T v, memory_order o = memory_order_seq_cst) SIM_ATOMIC_CONST { return sim_atomic_view<T>(AT).fetch_sub(v, o); } \
    T fetch_and(T v, memory_order o = memory_order_seq_cst) SIM_ATOMIC_CONST { return sim_atomic_view<T>(AT).fetch_and(v, o); } \
    T fetch_or(T v, memory_order o = memory_order_seq_cst) SIM_ATOMIC_CONST { return sim_atomic_view<T>(AT).fetch_or(v, o); }   \
    T fetch_xor(T v, memory_order o = memory_order_seq_cst) SIM_ATOMIC_CONST { return sim_atomic_view<T>(AT).fetch_xor(v, o); } \
    T fetch_min(T v, memory_order o = memory_order_seq_cst) SIM_ATOMIC_CONST { return sim_atomic_view<T>(AT).fetch_min(v, o); } \
    T fetch_max(T v, memory_order o = memory_order_seq_cst) SIM_ATOMIC_CONST { return sim_atomic_view<T>(AT).fetch_max(v, o); } \
    T operator++() SIM_ATOMIC_CONST { return static_cast<T>(fetch_add(T(1)) + T(1)); }                                        \
    T operator++(int) SIM_ATOMIC_CONST { return fetch_add(T(1)); }                                                            \
    T operator--() SIM_ATOMIC_CONST { return static_cast<T>(fetch_sub(T(1)) - T(1)); }                                        \
    T operator--(int) SIM_ATOMIC_CONST { return fetch_sub(T(1)); }                                                            \
    T operator+=(T v) SIM_ATOMIC_CONST { return static_cast<T>(fetch_add(v) + v); }                                           \
    T operator-=(T v) SIM_ATOMIC_CONST { return static_cast<T>(fetch_sub(v) - v); }                                           \
    T operator&=(T v) SIM_ATOMIC_CONST { return static_cast<T>(fetch_and(v) & v); }                                           \
    T operator|=(T v) SIM_ATOMIC_CONST { return static_cast<T>(fetch_or(v) | v); }                                            \
    T operator^=(T v) SIM_ATOMIC_CONST { return static_cast<T>(fetch_xor(v) ^ v); }

template <class T, thread_scope Scope = thread_scope_system>
class atomic {
    T value_;

  public:
    atomic() = default;
    constexpr atomic(T v) : value_(v) {}
    atomic(const atomic&) = delete;
    atomic& operator=(const atomic&) = delete;
#define SIM_ATOMIC_CONST
    SIM_ATOMIC_MEMBERS(T, &value_)
#undef SIM_ATOMIC_CONST
};

template <class T, thread_scope Scope = thread_scope_system>
class atomic_ref {
    T* at_;

  public:
    static constexpr ::std::size_t required_alignment = sizeof(T);
    explicit atomic_ref(T& v) : at_(&v) {}
    atomic_ref(const atomic_ref&) = default;
    atomic_ref& operator=(const atomic_ref&) = delete;
#define SIM_ATOMIC_CONST const
    SIM_ATOMIC_MEMBERS(T, at_)
#undef SIM_ATOMIC_CONST
};
#undef SIM_ATOMIC_MEMBERS

typedef atomic<int> atomic_int;
typedef atomic<unsigned> atomic_uint;

namespace std {
template <class T> using atomic = ::cuda::atomic<T, thread_scope_system>;
template <class T> using atomic_ref = ::cuda::atomic_ref<T, thread_scope_system>;
using ::cuda::atomic_signal_fence;
inline void atomic_thread_fence(memory_order order) { ::cuda::atomic_thread_fence(order); }
}  // namespace std
}  // namespace cuda
