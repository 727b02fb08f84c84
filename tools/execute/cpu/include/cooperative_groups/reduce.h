// cooperative_groups::reduce: every thread of a tile or coalesced group gets the fold, taken in rank order.
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {
template <class Group, class T, class Op>
inline T reduce(const Group& g, T value, Op op, SIM_LINE) { return simg::reduce(g.sim_mask(), value, op, sim_line); }
template <class Group, class T>
inline T reduce(const Group& g, T value, SIM_LINE) { return simg::reduce(g.sim_mask(), value, plus<T>(), sim_line); }
template <class Group, class Atomic, class T, class Op>
inline void reduce_update_async(const Group& g, Atomic& to, T value, Op op, SIM_LINE) {
    const T all = simg::reduce(g.sim_mask(), value, op, sim_line);
    if (g.thread_rank() == 0) sim_update(to, all, op);
}
template <class Group, class Atomic, class T, class Op>
inline void reduce_store_async(const Group& g, Atomic& to, T value, Op op, SIM_LINE) {
    const T all = simg::reduce(g.sim_mask(), value, op, sim_line);
    if (g.thread_rank() == 0) to.store(all);
}
}  // namespace cooperative_groups
