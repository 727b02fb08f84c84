// cooperative_groups::memcpy_async and its waits.
#pragma once
#include "../cooperative_groups.h"
#include "../sim_copy.h"

namespace cooperative_groups {
template <class Group, class T, class U, class Size>
inline void memcpy_async(const Group& g, T* destination, const U* source, const Size& bytes) {
    simc::copy_share(destination, source, static_cast<std::size_t>(bytes), g.thread_rank(), g.size());
}
/// The form with element counts on both sides copies the smaller of the two.
template <class Group, class T, class DstLayout, class SrcLayout>
inline void memcpy_async(const Group& g, T* destination, const DstLayout& room, const T* source, const SrcLayout& count) {
    const std::size_t n = static_cast<std::size_t>(room) < static_cast<std::size_t>(count) ? static_cast<std::size_t>(room)
                                                                                          : static_cast<std::size_t>(count);
    simc::copy_share(destination, source, n * sizeof(T), g.thread_rank(), g.size());
}
template <class Group>
inline void wait(const Group& g, SIM_LINE) { g.sync(sim_line); }
template <unsigned int Stages, class Group>
inline void wait_prior(const Group& g, SIM_LINE) { g.sync(sim_line); }
}  // namespace cooperative_groups
