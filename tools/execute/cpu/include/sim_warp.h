// Warp-wide exchange of values of any size, on the 8-byte rendezvous of the core.
#pragma once
#include "sim_core.h"

namespace simg {

inline unsigned lanes_below() { return (1u << sim_here.lane) - 1u; }
/// Lane of the `rank`-th set bit of `mask`, counted from 0; -1 when there is none.
inline int lane_of_rank(unsigned mask, unsigned rank) {
    for (int lane = 0; lane < 32; ++lane)
        if (((mask >> lane) & 1u) && rank-- == 0) return lane;
    return -1;
}

template <class T>
inline std::uint64_t word_of(const T& value, std::size_t index) {
    std::uint64_t word = 0;
    const std::size_t rest = sizeof(T) - 8 * index;
    __builtin_memcpy(&word, reinterpret_cast<const char*>(&value) + 8 * index, rest < 8 ? rest : 8);
    return word;
}
template <class T>
inline void set_word(T& value, std::size_t index, std::uint64_t word) {
    const std::size_t rest = sizeof(T) - 8 * index;
    __builtin_memcpy(reinterpret_cast<char*>(&value) + 8 * index, &word, rest < 8 ? rest : 8);
}

/// The value of lane `source`; every lane of `mask` calls it.
template <class T>
inline T exchange(unsigned mask, const T& value, int source, int line) {
    T result = value;
    for (std::size_t i = 0; i < (sizeof(T) + 7) / 8; ++i)
        set_word(result, i, sim_warp_exchange(mask, word_of(value, i), source, line));
    return result;
}

/// All lanes' values; entries outside `mask` are left as they are.
template <class T>
inline void gather(unsigned mask, const T& value, T* all, int line) {
    std::uint64_t table[32];
    for (std::size_t i = 0; i < (sizeof(T) + 7) / 8; ++i) {
        sim_warp_gather(mask, word_of(value, i), table, line);
        for (int lane = 0; lane < 32; ++lane)
            if ((mask >> lane) & 1u) set_word(all[lane], i, table[lane]);
    }
}

/// Room for 32 values whose type need not be default-constructible.
template <class T>
struct table {
    alignas(T) unsigned char bytes[32 * sizeof(T)];
    T* data() { return reinterpret_cast<T*>(bytes); }
};

/// Fold in lane order over the lanes of `mask`.
template <class T, class Op>
inline T reduce(unsigned mask, const T& value, Op op, int line) {
    table<T> room;
    T* const all = room.data();
    gather(mask, value, all, line);
    T result = value;
    bool first = true;
    for (int lane = 0; lane < 32; ++lane)
        if ((mask >> lane) & 1u) {
            result = first ? all[lane] : static_cast<T>(op(result, all[lane]));
            first = false;
        }
    return result;
}

/// Fold over the lanes of `mask` up to this one (inclusive) or below it; `*any` says whether there were any.
template <class T, class Op>
inline T scan(unsigned mask, const T& value, Op op, bool inclusive, bool* any, int line) {
    table<T> room;
    T* const all = room.data();
    gather(mask, value, all, line);
    T result = value;
    *any = false;
    const int end = static_cast<int>(sim_here.lane) + (inclusive ? 1 : 0);
    for (int lane = 0; lane < end; ++lane)
        if ((mask >> lane) & 1u) {
            result = *any ? static_cast<T>(op(result, all[lane])) : all[lane];
            *any = true;
        }
    return result;
}

inline unsigned ballot(unsigned mask, bool predicate, int line) {
    std::uint64_t table[32];
    sim_warp_gather(mask, predicate, table, line);
    unsigned result = 0;
    for (int lane = 0; lane < 32; ++lane)
        if (((mask >> lane) & 1u) && table[lane]) result |= 1u << lane;
    return result;
}
template <class T>
inline unsigned match(unsigned mask, const T& value, int line) {
    unsigned same = mask;
    std::uint64_t table[32];
    for (std::size_t i = 0; i < (sizeof(T) + 7) / 8; ++i) {
        const std::uint64_t mine = word_of(value, i);
        sim_warp_gather(mask, mine, table, line);
        for (int lane = 0; lane < 32; ++lane)
            if (((mask >> lane) & 1u) && table[lane] != mine) same &= ~(1u << lane);
    }
    return same;
}
/// Keeps the bits of `bits` that stand in `mask` and closes them up.
inline unsigned pack(unsigned bits, unsigned mask) {
    unsigned result = 0, at = 0;
    for (int lane = 0; lane < 32; ++lane)
        if ((mask >> lane) & 1u) result |= ((bits >> lane) & 1u) << at++;
    return result;
}

}  // namespace simg
