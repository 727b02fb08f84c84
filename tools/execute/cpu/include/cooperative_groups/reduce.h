// cooperative_groups::reduce: every thread of a tile or coalesced group gets the fold, taken in rank order.
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {
template <class Group, class T, class Op>
inline T reduce(const Group& g, T value, Op op, SIM_LINE) { return simg::reduce(g.sim_mask(), value, op, sim_line); }
template <class Group, class T>
inline T reduce(const Group& g, T value, SIM_LINE) { return simg::reduce(g.sim_mask(), value, plus<T>(), sim_line); }
}  // namespace cooperative_groups
