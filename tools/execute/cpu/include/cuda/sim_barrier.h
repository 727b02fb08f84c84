// cuda::barrier and cuda::pipeline. Copies are made when they are issued, those of a pipeline of one thread when they are
// waited for; barriers count as on a GPU, and the last arrival of a phase orders everything the block did before it (wider than the standard says, so never a false race).
#pragma once
#include "../sim_copy.h"
#include "sim_atomic.h"
#include "std/sim_std.h"

namespace cuda {
namespace std {
struct sim_no_completion { void operator()() const {} };
}  // namespace std

/// Expected count, arrivals still missing, and phase in one word.
class sim_phase {
    static constexpr int bits_ = 20;
    static constexpr ::std::uint64_t field_ = (1u << bits_) - 1u;
    ::std::uint64_t word_;

    static ::std::uint64_t make(::std::uint64_t expected, ::std::uint64_t missing, ::std::uint64_t phase) {
        return expected | (missing << bits_) | (phase << (2 * bits_));
    }

  public:
    SIM_UNWATCHED void start(unsigned expected) { __atomic_store_n(&word_, make(expected, expected, 0), __ATOMIC_SEQ_CST); }
    SIM_UNWATCHED unsigned phase() const { return static_cast<unsigned>(__atomic_load_n(&word_, __ATOMIC_SEQ_CST) >> (2 * bits_)); }
    /// Takes off `count` arrivals and `drop` expected ones; returns the phase before, and whether it is complete now.
    SIM_UNWATCHED unsigned arrive(unsigned count, unsigned drop, bool* complete, int line) {
        ::std::uint64_t seen = __atomic_load_n(&word_, __ATOMIC_SEQ_CST);
        for (;;) {
            const ::std::uint64_t expected = (seen & field_) - drop, missing = (seen >> bits_) & field_, now = seen >> (2 * bits_);
            if (count > missing) sim_trap("cuda::barrier: more arrivals than expected, or a barrier that was never initialised", line);
            *complete = missing == count;
            const ::std::uint64_t next = *complete ? make(expected, expected, now + 1) : make(expected, missing - count, now);
            if (__atomic_compare_exchange_n(&word_, &seen, next, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return static_cast<unsigned>(now);
        }
    }
    static void order(int line) {
        sim_fence();
        sim_named_barrier(-1 - static_cast<int>(sim_here.linear), 1, line);
    }
};

template <thread_scope Scope = thread_scope_system, class Completion = std::sim_no_completion>
class barrier {
    sim_phase state_;
    Completion completion_;

  public:
    class arrival_token {
        unsigned phase_;
        friend class barrier;
        explicit arrival_token(unsigned phase) : phase_(phase) {}

      public:
        arrival_token() = default;
    };
    barrier() = default;
    explicit barrier(::std::ptrdiff_t expected, Completion completion = Completion()) : completion_(completion) {
        state_.start(static_cast<unsigned>(expected));
    }
    barrier(const barrier&) = delete;
    barrier& operator=(const barrier&) = delete;
    friend void init(barrier* b, ::std::ptrdiff_t expected) { b->state_.start(static_cast<unsigned>(expected)); }
    friend void init(barrier* b, ::std::ptrdiff_t expected, Completion completion) {
        b->completion_ = completion;
        b->state_.start(static_cast<unsigned>(expected));
    }

    arrival_token arrive(::std::ptrdiff_t count = 1, SIM_LINE) { return arrive_as(static_cast<unsigned>(count), 0, sim_line); }
    void wait(arrival_token&& token, SIM_LINE) const {
        (void)sim_line;
        while (state_.phase() == token.phase_) sim_yield();
    }
    void wait_parity(bool parity) const { while ((state_.phase() & 1u) == static_cast<unsigned>(parity)) sim_yield(); }
    bool try_wait(arrival_token&& token) const {
        if (state_.phase() != token.phase_) return true;
        sim_yield();
        return state_.phase() != token.phase_;
    }
    bool try_wait_parity(bool parity) const {
        if ((state_.phase() & 1u) != static_cast<unsigned>(parity)) return true;
        sim_yield();
        return (state_.phase() & 1u) != static_cast<unsigned>(parity);
    }
    void arrive_and_wait(SIM_LINE) { wait(arrive_as(1, 0, sim_line), sim_line); }
    void arrive_and_drop(SIM_LINE) { arrive_as(1, 1, sim_line); }
    static constexpr ::std::ptrdiff_t max() { return (1 << 20) - 1; }

  private:
    arrival_token arrive_as(unsigned count, unsigned drop, int line) {
        bool complete;
        // Order first: whoever sees the new phase must see everything before it.
        sim_fence();
        const unsigned phase = state_.arrive(count, drop, &complete, line);
        if (complete) {
            completion_();
            sim_phase::order(line);
        }
        return arrival_token(phase);
    }
};

namespace device {
template <class B> inline auto barrier_arrive_tx(B& b, ::std::ptrdiff_t count, ::std::ptrdiff_t) { return b.arrive(count); }
template <class B> inline void barrier_expect_tx(B&, ::std::ptrdiff_t) {}
}  // namespace device

namespace std {
template <class Completion = sim_no_completion> using barrier = ::cuda::barrier<thread_scope_system, Completion>;
}  // namespace std

// ---- pipeline ----------------------------------------------------------------------------------------------------
enum class pipeline_role { producer, consumer };

template <thread_scope Scope, ::std::uint8_t Stages>
class pipeline_shared_state {
  public:
    barrier<thread_scope_block> sim_full[Stages];
    barrier<thread_scope_block> sim_empty[Stages];
};

template <thread_scope Scope>
class pipeline {
    barrier<thread_scope_block>* full_ = nullptr;
    barrier<thread_scope_block>* empty_ = nullptr;
    unsigned stages_ = 0;
    unsigned head_ = 0;
    unsigned tail_ = 0;

  public:
    pipeline() = default;
    pipeline(barrier<thread_scope_block>* full, barrier<thread_scope_block>* empty, unsigned stages)
        : full_(full), empty_(empty), stages_(stages) {}
    pipeline(pipeline&&) = default;
    pipeline& operator=(pipeline&&) = default;
    void producer_acquire() {
        // The first use of each stage finds it empty.
        if (stages_ && head_ >= stages_) empty_[head_ % stages_].wait_parity(((head_ / stages_) & 1u) == 0);
    }
    void producer_commit(SIM_LINE) {
        if (stages_) full_[head_ % stages_].arrive(1, sim_line);
        else sim_copy_commit();
        ++head_;
    }
    void consumer_wait() {
        if (stages_) full_[tail_ % stages_].wait_parity((tail_ / stages_) & 1u);
        else if (head_ != tail_) simc::wait_copies(head_ - tail_ - 1);
    }
    template <class Rep> bool consumer_wait_for(const Rep&) { consumer_wait(); return true; }
    void consumer_release(SIM_LINE) {
        if (stages_) empty_[tail_ % stages_].arrive(1, sim_line);
        ++tail_;
    }
    bool quit() { return true; }
};
inline pipeline<thread_scope_thread> make_pipeline() { return {}; }

template <class Group, thread_scope Scope, ::std::uint8_t Stages>
inline pipeline<Scope> sim_make_pipeline(const Group& g, pipeline_shared_state<Scope, Stages>* state, unsigned producers, unsigned consumers) {
    if (g.thread_rank() == 0)
        for (int i = 0; i < Stages; ++i) {
            init(&state->sim_full[i], static_cast<::std::ptrdiff_t>(producers));
            init(&state->sim_empty[i], static_cast<::std::ptrdiff_t>(consumers));
        }
    g.sync();
    return pipeline<Scope>(state->sim_full, state->sim_empty, Stages);
}
template <class Group, thread_scope Scope, ::std::uint8_t Stages>
inline pipeline<Scope> make_pipeline(const Group& g, pipeline_shared_state<Scope, Stages>* state) {
    return sim_make_pipeline(g, state, static_cast<unsigned>(g.size()), static_cast<unsigned>(g.size()));
}
template <class Group, thread_scope Scope, ::std::uint8_t Stages>
inline pipeline<Scope> make_pipeline(const Group& g, pipeline_shared_state<Scope, Stages>* state, ::std::size_t producers) {
    return sim_make_pipeline(g, state, static_cast<unsigned>(producers), static_cast<unsigned>(g.size() - producers));
}
template <class Group, thread_scope Scope, ::std::uint8_t Stages>
inline pipeline<Scope> make_pipeline(const Group& g, pipeline_shared_state<Scope, Stages>* state, pipeline_role role) {
    // The number of producers is counted in the state itself before the barriers take it over.
    unsigned* const count = reinterpret_cast<unsigned*>(state);
    if (g.thread_rank() == 0) *count = 0;
    g.sync();
    if (role == pipeline_role::producer) __atomic_fetch_add(count, 1u, __ATOMIC_SEQ_CST);
    g.sync();
    const unsigned producers = *count;
    g.sync();
    return sim_make_pipeline(g, state, producers, static_cast<unsigned>(g.size()) - producers);
}
template <::std::uint8_t Prior, thread_scope Scope>
inline void pipeline_consumer_wait_prior(pipeline<Scope>&) { simc::wait_copies(Prior); }
/// The barrier completes after the copies: they are done before the arrival that follows.
template <thread_scope Scope, class B>
inline void pipeline_producer_commit(pipeline<Scope>&, B&) { simc::wait_copies(0, true); }
template <thread_scope Scope>
inline void sim_pipeline_copy(void* destination, const void* source, ::std::size_t bytes, ::std::size_t rank, ::std::size_t threads) {
    if (Scope == thread_scope_thread) simc::copy_later(destination, source, bytes, rank, threads);
    else simc::copy_share(destination, source, bytes, rank, threads);
}

// ---- memcpy_async: completes on a barrier or a pipeline, which order it ------------------------------------------
template <class T, class U, class Size, thread_scope Scope, class C>
inline void memcpy_async(T* destination, const U* source, Size bytes, barrier<Scope, C>&) {
    simc::copy_share(destination, source, static_cast<::std::size_t>(bytes), 0, 1);
}
template <class T, class U, class Size, thread_scope Scope>
inline void memcpy_async(T* destination, const U* source, Size bytes, pipeline<Scope>&) {
    sim_pipeline_copy<Scope>(destination, source, static_cast<::std::size_t>(bytes), 0, 1);
}
template <class Group, class T, class U, class Size, thread_scope Scope, class C>
inline void memcpy_async(const Group& g, T* destination, const U* source, Size bytes, barrier<Scope, C>&) {
    simc::copy_share(destination, source, static_cast<::std::size_t>(bytes), g.thread_rank(), g.size());
}
template <class Group, class T, class U, class Size, thread_scope Scope>
inline void memcpy_async(const Group& g, T* destination, const U* source, Size bytes, pipeline<Scope>&) {
    sim_pipeline_copy<Scope>(destination, source, static_cast<::std::size_t>(bytes), g.thread_rank(), g.size());
}
namespace device {
template <class T, class U, class Size, thread_scope Scope, class C>
inline void memcpy_async_tx(T* destination, const U* source, Size bytes, barrier<Scope, C>&) {
    simc::copy_share(destination, source, static_cast<::std::size_t>(bytes), 0, 1);
}
}  // namespace device
}  // namespace cuda
