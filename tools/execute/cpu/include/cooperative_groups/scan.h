// cooperative_groups scans over a tile or coalesced group, in rank order.
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {
// What rank 0 of an exclusive scan gets: the neutral element of the known operators, else T{}.
template <class T, class Op> struct sim_neutral { static T value() { return T{}; } };
template <class T> struct sim_neutral<T, less<T>> { static T value() { return std::numeric_limits<T>::max(); } };
template <class T> struct sim_neutral<T, greater<T>> { static T value() { return std::numeric_limits<T>::lowest(); } };
template <class T> struct sim_neutral<T, bit_and<T>> { static T value() { return static_cast<T>(~T{}); } };

template <class Group, class T, class Op>
inline T inclusive_scan(const Group& g, T value, Op op, SIM_LINE) {
    bool any;
    return simg::scan(g.sim_mask(), value, op, true, &any, sim_line);
}
template <class Group, class T>
inline T inclusive_scan(const Group& g, T value, SIM_LINE) { return inclusive_scan(g, value, plus<T>(), sim_line); }
template <class Group, class T, class Op>
inline T exclusive_scan(const Group& g, T value, Op op, SIM_LINE) {
    bool any;
    const T result = simg::scan(g.sim_mask(), value, op, false, &any, sim_line);
    return any ? result : sim_neutral<T, Op>::value();
}
template <class Group, class T>
inline T exclusive_scan(const Group& g, T value, SIM_LINE) { return exclusive_scan(g, value, plus<T>(), sim_line); }
template <class Group, class Atomic, class T, class Op>
inline T inclusive_scan_update(const Group& g, Atomic& to, T value, Op op, SIM_LINE) {
    const T own = inclusive_scan(g, value, op, sim_line), all = simg::reduce(g.sim_mask(), value, op, sim_line);
    T old{};
    if (g.thread_rank() == 0) old = sim_update(to, all, op);
    return static_cast<T>(op(g.shfl(old, 0), own));
}
template <class Group, class Atomic, class T, class Op>
inline T exclusive_scan_update(const Group& g, Atomic& to, T value, Op op, SIM_LINE) {
    const T own = exclusive_scan(g, value, op, sim_line), all = simg::reduce(g.sim_mask(), value, op, sim_line);
    T old{};
    if (g.thread_rank() == 0) old = sim_update(to, all, op);
    old = g.shfl(old, 0);
    return g.thread_rank() == 0 ? old : static_cast<T>(op(old, own));
}
}  // namespace cooperative_groups
