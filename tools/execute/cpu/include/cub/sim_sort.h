// Block-wide sorting, exchange, histogram and discontinuity on the CPU executor.
#pragma once
#include "sim_block.h"

namespace cub {

/// Keys as unsigned integers in the order of the keys; -0 and +0 are the same key.
template <class K>
inline std::uint64_t sim_ordered(K key) {
    constexpr int width = static_cast<int>(sizeof(K)) * 8;
    constexpr std::uint64_t top = std::uint64_t{1} << (width - 1);
    std::uint64_t word = 0;
    __builtin_memcpy(&word, &key, sizeof(K));
    if constexpr (std::is_integral<K>::value) {
        return std::is_signed<K>::value ? word ^ top : word;
    } else {
        if (word == top) word = 0;
        return (word & top) ? ~word & (top | (top - 1)) : word | top;
    }
}

/// Stable merge sort of indices 0..n-1 by `before(i, j)`; both arrays have room for n.
template <class Before>
inline void sim_sort_indices(unsigned short* index, unsigned short* other, int n, Before before) {
    for (int width = 1; width < n; width *= 2) {
        for (int low = 0; low < n; low += 2 * width) {
            const int middle = low + width < n ? low + width : n;
            const int high = low + 2 * width < n ? low + 2 * width : n;
            int i = low, j = middle, k = low;
            while (i < middle && j < high) other[k++] = before(index[j], index[i]) ? index[j++] : index[i++];
            while (i < middle) other[k++] = index[i++];
            while (j < high) other[k++] = index[j++];
        }
        for (int i = 0; i < n; ++i) index[i] = other[i];
    }
}

/// What the sorts keep in shared memory; V is NullType for keys alone.
template <class K, class V, int Count>
struct sim_sort_storage {
    alignas(K) unsigned char key_bytes[sizeof(K) * Count];
    alignas(V) unsigned char value_bytes[sizeof(V) * Count];
    unsigned short index[Count];
    unsigned short other[Count];
    K* keys() { return reinterpret_cast<K*>(key_bytes); }
    V* values() { return reinterpret_cast<V*>(value_bytes); }
};

template <class K, class V, int Threads, int Items>
struct sim_sorter {
    static_assert(Threads * Items <= 65536, "cuda_harness unsupported: a block sort of more than 65536 items");
    template <class Storage, class Before>
    static void sort(Storage& temp, K (&keys)[Items], V* values, bool striped, int valid, Before before, sim_site at) {
        const int tid = static_cast<int>(sim_tid());
        for (int i = 0; i < Items; ++i) {
            temp.keys()[tid * Items + i] = keys[i];
            if (values) temp.values()[tid * Items + i] = values[i];
        }
        sim_sync(at);
        if (tid == 0) {
            for (int i = 0; i < Threads * Items; ++i) temp.index[i] = static_cast<unsigned short>(i);
            sim_sort_indices(temp.index, temp.other, valid, [&](int i, int j) { return before(temp.keys()[i], temp.keys()[j]); });
        }
        sim_sync(at);
        for (int i = 0; i < Items; ++i) {
            const int from = temp.index[striped ? tid + i * Threads : tid * Items + i];
            keys[i] = temp.keys()[from];
            if (values) values[i] = temp.values()[from];
        }
    }
};

template <class K, int X, int Items, class V = NullType, int RadixBits = 4, bool Memoize = true,
          BlockScanAlgorithm Inner = BLOCK_SCAN_WARP_SCANS, int Banks = 0, int Y = 1, int Z = 1, int Arch = 0>
class BlockRadixSort : public sim_primitive<BlockRadixSort<K, X, Items, V, RadixBits, Memoize, Inner, Banks, Y, Z, Arch>,
                                            sim_sort_storage<K, V, X * Y * Z * Items>> {
    typedef sim_primitive<BlockRadixSort, sim_sort_storage<K, V, X * Y * Z * Items>> Base;
    static constexpr int all_bits = static_cast<int>(sizeof(K)) * 8;

    void sort(K (&keys)[Items], V* values, int begin, int end, bool descending, bool striped, sim_site at) {
        const int count = end - begin;
        const std::uint64_t mask = count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
        sim_sorter<K, V, X * Y * Z, Items>::sort(this->temp, keys, values, striped, X * Y * Z * Items, [=](const K& a, const K& b) {
            const std::uint64_t p = (sim_ordered(a) >> begin) & mask;
            const std::uint64_t q = (sim_ordered(b) >> begin) & mask;
            return descending ? p > q : p < q;
        }, at);
    }

  public:
    using Base::Base;
    BlockRadixSort() = default;
#define SIM_SORT(name, descending, striped)                                                                                  \
    void name(K (&keys)[Items], int begin = 0, int end = all_bits, SIM_SITE) { sort(keys, nullptr, begin, end, descending, striped, at); } \
    void name(K (&keys)[Items], V (&values)[Items], int begin = 0, int end = all_bits, SIM_SITE) { sort(keys, values, begin, end, descending, striped, at); }
    SIM_SORT(Sort, false, false)
    SIM_SORT(SortDescending, true, false)
    SIM_SORT(SortBlockedToStriped, false, true)
    SIM_SORT(SortDescendingBlockedToStriped, true, true)
#undef SIM_SORT
};

template <class K, int X, int Items, class V = NullType, int Y = 1, int Z = 1>
class BlockMergeSort : public sim_primitive<BlockMergeSort<K, X, Items, V, Y, Z>, sim_sort_storage<K, V, X * Y * Z * Items>> {
    typedef sim_primitive<BlockMergeSort, sim_sort_storage<K, V, X * Y * Z * Items>> Base;
    static constexpr int threads = X * Y * Z;
    template <class Compare>
    void sort(K (&keys)[Items], V* values, Compare compare, int valid, const K* other, sim_site at) {
        if (other)
            for (int i = 0; i < Items; ++i)
                if (static_cast<int>(sim_tid()) * Items + i >= valid) keys[i] = *other;
        sim_sorter<K, V, threads, Items>::sort(this->temp, keys, values, false, valid, compare, at);
    }

  public:
    using Base::Base;
    BlockMergeSort() = default;
#define SIM_SORT(name)                                                                                                              \
    template <class C> void name(K (&keys)[Items], C compare, SIM_SITE) { sort(keys, nullptr, compare, threads * Items, nullptr, at); } \
    template <class C> void name(K (&keys)[Items], C compare, int valid, K other, SIM_SITE) { sort(keys, nullptr, compare, valid, &other, at); } \
    template <class C> void name(K (&keys)[Items], V (&values)[Items], C compare, SIM_SITE) { sort(keys, values, compare, threads * Items, nullptr, at); } \
    template <class C> void name(K (&keys)[Items], V (&values)[Items], C compare, int valid, K other, SIM_SITE) { sort(keys, values, compare, valid, &other, at); }
    SIM_SORT(Sort)
    SIM_SORT(StableSort)
#undef SIM_SORT
};

template <class T, int X, int Items, bool TimeSlicing = false, int Y = 1, int Z = 1, int Arch = 0>
class BlockExchange : public sim_primitive<BlockExchange<T, X, Items, TimeSlicing, Y, Z, Arch>, sim_storage<T, X * Y * Z * Items>> {
    static constexpr int threads = X * Y * Z;
    typedef sim_primitive<BlockExchange, sim_storage<T, threads * Items>> Base;
    static int blocked(int i) { return static_cast<int>(sim_tid()) * Items + i; }
    static int striped(int i) { return static_cast<int>(sim_tid()) + i * threads; }
    template <class U, class To, class From>
    void move(const T (&in)[Items], U (&out)[Items], To to, From from, sim_site at) {
        T* const room = this->temp.data();
        for (int i = 0; i < Items; ++i) room[to(i)] = in[i];
        sim_sync(at);
        for (int i = 0; i < Items; ++i) out[i] = room[from(i)];
    }

  public:
    using Base::Base;
    BlockExchange() = default;
    template <class U> void StripedToBlocked(const T (&in)[Items], U (&out)[Items], SIM_SITE) { move(in, out, striped, blocked, at); }
    template <class U> void BlockedToStriped(const T (&in)[Items], U (&out)[Items], SIM_SITE) { move(in, out, blocked, striped, at); }
    template <class U, class R> void ScatterToBlocked(const T (&in)[Items], U (&out)[Items], R (&ranks)[Items], SIM_SITE) {
        move(in, out, [&](int i) { return static_cast<int>(ranks[i]); }, blocked, at);
    }
    template <class U, class R> void ScatterToStriped(const T (&in)[Items], U (&out)[Items], R (&ranks)[Items], SIM_SITE) {
        move(in, out, [&](int i) { return static_cast<int>(ranks[i]); }, striped, at);
    }
    void StripedToBlocked(T (&items)[Items], SIM_SITE) { move(items, items, striped, blocked, at); }
    void BlockedToStriped(T (&items)[Items], SIM_SITE) { move(items, items, blocked, striped, at); }
};

template <class T, int X, int Items, int Bins, BlockHistogramAlgorithm Algorithm = BLOCK_HISTO_SORT, int Y = 1, int Z = 1, int Arch = 0>
class BlockHistogram : public sim_primitive<BlockHistogram<T, X, Items, Bins, Algorithm, Y, Z, Arch>, sim_storage<T, X * Y * Z * Items>> {
    static constexpr int threads = X * Y * Z;
    typedef sim_primitive<BlockHistogram, sim_storage<T, threads * Items>> Base;

  public:
    using Base::Base;
    BlockHistogram() = default;
    template <class C> void InitHistogram(C (&histogram)[Bins]) {
        for (int i = static_cast<int>(sim_tid()); i < Bins; i += threads) histogram[i] = C(0);
    }
    /// Thread t adds up the bins t, t + threads, ...: no atomics, so any counter type works.
    template <class C> void Composite(T (&items)[Items], C (&histogram)[Bins], SIM_SITE) {
        T* const all = this->temp.data();
        for (int i = 0; i < Items; ++i) all[static_cast<int>(sim_tid()) * Items + i] = items[i];
        sim_sync(at);
        for (int bin = static_cast<int>(sim_tid()); bin < Bins; bin += threads) {
            C count = histogram[bin];
            for (int i = 0; i < threads * Items; ++i)
                if (static_cast<int>(all[i]) == bin) count = static_cast<C>(count + C(1));
            histogram[bin] = count;
        }
        sim_sync(at);
    }
    template <class C> void Histogram(T (&items)[Items], C (&histogram)[Bins], SIM_SITE) {
        InitHistogram(histogram);
        sim_sync(at);
        Composite(items, histogram, at);
    }
};

template <class T, int X, int Y = 1, int Z = 1, int Arch = 0>
class BlockDiscontinuity : public sim_primitive<BlockDiscontinuity<T, X, Y, Z, Arch>, sim_storage<T, X * Y * Z>> {
    static constexpr int threads = X * Y * Z;
    typedef sim_primitive<BlockDiscontinuity, sim_storage<T, threads>> Base;
    template <int N, class F, class Op>
    void heads(F (&flags)[N], T (&in)[N], Op op, const T* before, sim_site at) {
        T* const last = this->temp.data();
        last[sim_tid()] = in[N - 1];
        sim_sync(at);
        const T* const left = sim_tid() ? &last[sim_tid() - 1] : before;
        flags[0] = left ? static_cast<F>(op(*left, in[0])) : F(1);
        for (int i = 1; i < N; ++i) flags[i] = static_cast<F>(op(in[i - 1], in[i]));
    }
    template <int N, class F, class Op>
    void tails(F (&flags)[N], T (&in)[N], Op op, const T* after, sim_site at) {
        T* const first = this->temp.data();
        first[sim_tid()] = in[0];
        sim_sync(at);
        const T* const right = sim_tid() + 1 < static_cast<unsigned>(threads) ? &first[sim_tid() + 1] : after;
        flags[N - 1] = right ? static_cast<F>(op(in[N - 1], *right)) : F(1);
        for (int i = 0; i + 1 < N; ++i) flags[i] = static_cast<F>(op(in[i], in[i + 1]));
    }

  public:
    using Base::Base;
    BlockDiscontinuity() = default;
    template <int N, class F, class Op> void FlagHeads(F (&flags)[N], T (&in)[N], Op op, SIM_SITE) { heads(flags, in, op, nullptr, at); }
    template <int N, class F, class Op> void FlagHeads(F (&flags)[N], T (&in)[N], Op op, T before, SIM_SITE) { heads(flags, in, op, &before, at); }
    template <int N, class F, class Op> void FlagTails(F (&flags)[N], T (&in)[N], Op op, SIM_SITE) { tails(flags, in, op, nullptr, at); }
    template <int N, class F, class Op> void FlagTails(F (&flags)[N], T (&in)[N], Op op, T after, SIM_SITE) { tails(flags, in, op, &after, at); }
};

}  // namespace cub
