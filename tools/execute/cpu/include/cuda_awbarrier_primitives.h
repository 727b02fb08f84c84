// The C form of barriers in shared memory: `__mbarrier_*`, over the same counter as cuda::barrier.
#pragma once
#include "cuda/sim_barrier.h"

typedef unsigned long long __mbarrier_t;
typedef unsigned long long __mbarrier_token_t;
static_assert(sizeof(__mbarrier_t) == sizeof(cuda::sim_phase), "a barrier is one word");

inline cuda::sim_phase* sim_mbarrier(__mbarrier_t* b) { return reinterpret_cast<cuda::sim_phase*>(b); }
inline unsigned __mbarrier_maximum_count() { return (1u << 20) - 1u; }
inline void __mbarrier_init(__mbarrier_t* b, unsigned expected) { sim_mbarrier(b)->start(expected); }
inline void __mbarrier_inval(__mbarrier_t*) {}
inline __mbarrier_token_t sim_mbarrier_arrive(__mbarrier_t* b, unsigned drop, int line) {
    bool complete = false;
    // Order first: whoever sees the new phase must see everything before it.
    sim_fence();
    const unsigned phase = sim_mbarrier(b)->arrive(1, drop, &complete, line);
    if (complete) cuda::sim_phase::order(line);
    return phase;
}
inline __mbarrier_token_t __mbarrier_arrive(__mbarrier_t* b, SIM_LINE) { return sim_mbarrier_arrive(b, 0, sim_line); }
inline __mbarrier_token_t __mbarrier_arrive_and_drop(__mbarrier_t* b, SIM_LINE) { return sim_mbarrier_arrive(b, 1, sim_line); }
inline bool __mbarrier_test_wait(__mbarrier_t* b, __mbarrier_token_t token) {
    if (sim_mbarrier(b)->phase() != static_cast<unsigned>(token)) return true;
    sim_yield();
    return false;
}
inline bool __mbarrier_test_wait_parity(__mbarrier_t* b, bool parity) {
    if ((sim_mbarrier(b)->phase() & 1u) != static_cast<unsigned>(parity)) return true;
    sim_yield();
    return false;
}
inline bool __mbarrier_try_wait(__mbarrier_t* b, __mbarrier_token_t token, unsigned) { return __mbarrier_test_wait(b, token); }
inline bool __mbarrier_try_wait_parity(__mbarrier_t* b, bool parity, unsigned) { return __mbarrier_test_wait_parity(b, parity); }
