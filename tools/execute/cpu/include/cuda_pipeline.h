// The pipeline primitives: a copy is read when it is issued and written when it is waited for.
#pragma once
#include "sim_copy.h"

inline void __pipeline_memcpy_async(void* destination, const void* source, std::size_t size, std::size_t zero_fill = 0, SIM_LINE) {
    if (size != 4 && size != 8 && size != 16) sim_trap("__pipeline_memcpy_async: the size must be 4, 8 or 16 bytes", sim_line);
    if ((reinterpret_cast<std::uintptr_t>(destination) | reinterpret_cast<std::uintptr_t>(source)) % size != 0)
        sim_misaligned(reinterpret_cast<std::uintptr_t>(source) % size ? source : destination,
                       "__pipeline_memcpy_async needs addresses that are multiples of the copied size", sim_line);
    const std::size_t read = size - (zero_fill < size ? zero_fill : size);
    simc::issue_copy(destination, source, static_cast<unsigned>(size), static_cast<unsigned>(read));
}
inline void __pipeline_commit() { sim_copy_commit(); }
inline void __pipeline_wait_prior(std::size_t prior) { simc::wait_copies(static_cast<unsigned>(prior)); }
/// The barrier completes after the copies of its threads: they are done before the arrival that follows.
template <class Barrier> inline void __pipeline_arrive_on(Barrier*) { simc::wait_copies(0, true); }
