// The pipeline primitives: a copy is done when it is issued, so committing and waiting have nothing left to do.
#pragma once
#include "sim_copy.h"

inline void __pipeline_memcpy_async(void* destination, const void* source, std::size_t size, std::size_t zero_fill = 0, SIM_LINE) {
    if (size != 4 && size != 8 && size != 16) sim_trap("__pipeline_memcpy_async: the size must be 4, 8 or 16 bytes", sim_line);
    if ((reinterpret_cast<std::uintptr_t>(destination) | reinterpret_cast<std::uintptr_t>(source)) % size != 0)
        sim_misaligned(reinterpret_cast<std::uintptr_t>(source) % size ? source : destination,
                       "__pipeline_memcpy_async needs addresses that are multiples of the copied size", sim_line);
    const std::size_t read = size - (zero_fill < size ? zero_fill : size);
    simc::copy_share(destination, source, read, 0, 1);
    for (std::size_t i = read; i < size; ++i) static_cast<unsigned char*>(destination)[i] = 0;
}
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(std::size_t) {}
/// Old form of the barrier's arrival: the copies are done already, so it has nothing to add.
template <class Barrier> inline void __pipeline_arrive_on(Barrier*) {}
