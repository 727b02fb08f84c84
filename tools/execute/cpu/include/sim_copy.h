// Copies that CUDA runs in the background. Those of a group or a barrier are made at once, each thread its share: what
// makes the bytes of the other threads readable is the wait, which is a barrier of the group. Those that a thread waits
// for by itself are written when it does.
#pragma once
#include "sim_core.h"

namespace cuda {
/// A size in bytes that promises an alignment.
template <::std::size_t Alignment>
struct aligned_size_t {
    ::std::size_t value;
    explicit constexpr aligned_size_t(::std::size_t bytes) : value(bytes) {}
    constexpr operator ::std::size_t() const { return value; }
};
}  // namespace cuda

namespace simc {
// Words that may alias anything: a copy of floats is not a read of integers to the optimiser.
typedef ::std::uint32_t __attribute__((may_alias)) word32;

/// Copies the share of thread `rank` of `threads`.
inline void copy_share(void* destination, const void* source, ::std::size_t bytes, ::std::size_t rank, ::std::size_t threads) {
    const auto d = reinterpret_cast<::std::uintptr_t>(destination);
    const auto s = reinterpret_cast<::std::uintptr_t>(source);
    ::std::size_t done = 0;
    if ((d | s) % 4 == 0) {
        const ::std::size_t words = bytes / 4;
        for (::std::size_t i = rank; i < words; i += threads)
            static_cast<word32*>(destination)[i] = static_cast<const word32*>(source)[i];
        done = words * 4;
    }
    for (::std::size_t i = done + rank; i < bytes; i += threads)
        static_cast<unsigned char*>(destination)[i] = static_cast<const unsigned char*>(source)[i];
}

/// A copy in the background: read now, written when it is waited for, the latest moment that CUDA allows.
inline void issue_copy(void* destination, const void* source, unsigned size, unsigned read) {
    alignas(16) unsigned char bytes[16] = {};
    copy_share(bytes, source, read < size ? read : size, 0, 1);
    sim_copy_issue(destination, bytes, size);
}

/// The share of thread `rank` of `threads`, in the background.
inline void copy_later(void* destination, const void* source, ::std::size_t bytes, ::std::size_t rank, ::std::size_t threads) {
    unsigned char* const d = static_cast<unsigned char*>(destination);
    const unsigned char* const s = static_cast<const unsigned char*>(source);
    const bool words = (reinterpret_cast<::std::uintptr_t>(d) | reinterpret_cast<::std::uintptr_t>(s)) % 4 == 0;
    const ::std::size_t done = words ? bytes / 4 * 4 : 0;
    for (::std::size_t i = 4 * rank; i < done; i += 4 * threads) issue_copy(d + i, s + i, 4, 4);
    for (::std::size_t i = done + rank; i < bytes; i += threads) issue_copy(d + i, s + i, 1, 1);
}

/// Waits for all but the newest `prior` committed batches of this thread; with `all`, for open ones as well.
inline void wait_copies(unsigned prior, bool all = false) {
    sim_copy due;
    while (sim_copy_due(prior, all, &due)) copy_share(due.to, due.bytes, due.size, 0, 1);
}
}  // namespace simc
