// Warp-wide primitives of CUB on the CPU executor. They need no shared memory, so TempStorage is empty.
#pragma once
#include "sim_block.h"

namespace cub {

template <int Lanes>
struct sim_logical_warp {
    static_assert(Lanes >= 1 && Lanes <= 32, "a logical warp has 1 to 32 threads");
    static constexpr bool whole = (Lanes & (Lanes - 1)) == 0;
    static unsigned first() { return whole ? sim_here.lane & ~static_cast<unsigned>(Lanes - 1) : 0u; }
    static unsigned rank() { return sim_here.lane - first(); }
    static unsigned mask() { return (Lanes == 32 ? 0xffffffffu : (1u << (Lanes & 31)) - 1u) << first(); }
};

template <class T, int Lanes = 32, int Arch = 0>
class WarpReduce {
    typedef sim_logical_warp<Lanes> Warp;
    template <class Op>
    T fold(T input, Op op, int valid, sim_site at) {
        simg::table<T> room;
        T* const all = room.data();
        simg::gather(Warp::mask(), input, all, at.line);
        T result = all[Warp::first()];
        for (int i = 1; i < valid; ++i) result = static_cast<T>(op(result, all[Warp::first() + static_cast<unsigned>(i)]));
        return Warp::rank() == 0 ? result : input;
    }
    template <class Op, class Flag>
    T segmented(T input, Flag flag, Op op, bool heads, sim_site at) {
        simg::table<T> room;
        T* const all = room.data();
        simg::gather(Warp::mask(), input, all, at.line);
        const unsigned flags = simg::ballot(Warp::mask(), static_cast<bool>(flag), at.line);
        T result = input;
        const unsigned end = Warp::first() + static_cast<unsigned>(Lanes);
        for (unsigned lane = sim_here.lane + 1; lane < end; ++lane) {
            if (heads ? (flags >> lane) & 1u : (flags >> (lane - 1)) & 1u) break;
            result = static_cast<T>(op(result, all[lane]));
        }
        return result;
    }

  public:
    struct TempStorage {
        TempStorage& Alias() { return *this; }
    };
    explicit WarpReduce(TempStorage&) {}
    T Sum(T input, SIM_SITE) { return fold(input, cub::Sum(), Lanes, at); }
    T Sum(T input, int valid, SIM_SITE) { return fold(input, cub::Sum(), valid, at); }
    T Max(T input, SIM_SITE) { return fold(input, cub::Max(), Lanes, at); }
    T Min(T input, SIM_SITE) { return fold(input, cub::Min(), Lanes, at); }
    template <class Op> T Reduce(T input, Op op, SIM_SITE) { return fold(input, op, Lanes, at); }
    template <class Op> T Reduce(T input, Op op, int valid, SIM_SITE) { return fold(input, op, valid, at); }
    template <class F> T HeadSegmentedSum(T input, F flag, SIM_SITE) { return segmented(input, flag, cub::Sum(), true, at); }
    template <class F> T TailSegmentedSum(T input, F flag, SIM_SITE) { return segmented(input, flag, cub::Sum(), false, at); }
    template <class Op, class F> T HeadSegmentedReduce(T input, F flag, Op op, SIM_SITE) { return segmented(input, flag, op, true, at); }
    template <class Op, class F> T TailSegmentedReduce(T input, F flag, Op op, SIM_SITE) { return segmented(input, flag, op, false, at); }
};

template <class T, int Lanes = 32, int Arch = 0>
class WarpScan {
    typedef sim_logical_warp<Lanes> Warp;
    template <class Op>
    void scan(T input, T* inclusive, T* exclusive, const T* initial, Op op, T* aggregate, sim_site at) {
        simg::table<T> room;
        T* const all = room.data();
        simg::gather(Warp::mask(), input, all, at.line);
        bool any = initial != nullptr;
        T running = any ? *initial : input;
        T total = all[Warp::first()];
        for (unsigned i = 0; i < static_cast<unsigned>(Lanes); ++i) {
            const T item = all[Warp::first() + i];
            if (i > 0) total = static_cast<T>(op(total, item));
            if (i == Warp::rank() && exclusive && any) *exclusive = running;
            running = any ? static_cast<T>(op(running, item)) : item;
            any = true;
            if (i == Warp::rank() && inclusive) *inclusive = running;
        }
        if (aggregate) *aggregate = total;
    }

  public:
    struct TempStorage {
        TempStorage& Alias() { return *this; }
    };
    explicit WarpScan(TempStorage&) {}
    void InclusiveSum(T in, T& out, SIM_SITE) { scan(in, &out, nullptr, nullptr, cub::Sum(), nullptr, at); }
    void InclusiveSum(T in, T& out, T& aggregate, SIM_SITE) { scan(in, &out, nullptr, nullptr, cub::Sum(), &aggregate, at); }
    void ExclusiveSum(T in, T& out, SIM_SITE) { const T zero = T(0); scan(in, nullptr, &out, &zero, cub::Sum(), nullptr, at); }
    void ExclusiveSum(T in, T& out, T& aggregate, SIM_SITE) { const T zero = T(0); scan(in, nullptr, &out, &zero, cub::Sum(), &aggregate, at); }
    template <class Op> void InclusiveScan(T in, T& out, Op op, SIM_SITE) { scan(in, &out, nullptr, nullptr, op, nullptr, at); }
    template <class Op> void InclusiveScan(T in, T& out, Op op, T& aggregate, SIM_SITE) { scan(in, &out, nullptr, nullptr, op, &aggregate, at); }
    template <class Op> void InclusiveScan(T in, T& out, T initial, Op op, SIM_SITE) { scan(in, &out, nullptr, &initial, op, nullptr, at); }
    template <class Op> void ExclusiveScan(T in, T& out, Op op, SIM_SITE) { scan(in, nullptr, &out, nullptr, op, nullptr, at); }
    template <class Op> void ExclusiveScan(T in, T& out, Op op, T& aggregate, SIM_SITE) { scan(in, nullptr, &out, nullptr, op, &aggregate, at); }
    template <class Op> void ExclusiveScan(T in, T& out, T initial, Op op, SIM_SITE) { scan(in, nullptr, &out, &initial, op, nullptr, at); }
    template <class Op> void ExclusiveScan(T in, T& out, T initial, Op op, T& aggregate, SIM_SITE) { scan(in, nullptr, &out, &initial, op, &aggregate, at); }
    void Sum(T in, T& inclusive, T& exclusive, SIM_SITE) { const T zero = T(0); scan(in, &inclusive, &exclusive, &zero, cub::Sum(), nullptr, at); }
    template <class Op> void Scan(T in, T& inclusive, T& exclusive, Op op, SIM_SITE) { scan(in, &inclusive, &exclusive, nullptr, op, nullptr, at); }
    template <class Op> void Scan(T in, T& inclusive, T& exclusive, T initial, Op op, SIM_SITE) { scan(in, &inclusive, &exclusive, &initial, op, nullptr, at); }
    T Broadcast(T in, unsigned rank, SIM_SITE) { return simg::exchange(Warp::mask(), in, static_cast<int>(Warp::first() + rank), at.line); }
};

enum CacheLoadModifier { LOAD_DEFAULT, LOAD_CA, LOAD_CG, LOAD_CS, LOAD_CV, LOAD_LDG, LOAD_VOLATILE };
enum CacheStoreModifier { STORE_DEFAULT, STORE_WB, STORE_CG, STORE_CS, STORE_WT, STORE_VOLATILE };
template <CacheLoadModifier, class It>
inline auto ThreadLoad(It from) { return *from; }
template <CacheStoreModifier, class It, class T>
inline void ThreadStore(It to, T value) { *to = value; }

enum WarpLoadAlgorithm { WARP_LOAD_DIRECT, WARP_LOAD_STRIPED, WARP_LOAD_VECTORIZE, WARP_LOAD_TRANSPOSE };
enum WarpStoreAlgorithm { WARP_STORE_DIRECT, WARP_STORE_STRIPED, WARP_STORE_VECTORIZE, WARP_STORE_TRANSPOSE };

/// Which item of the warp's a thread's i-th is: its own run of them, or every `Lanes`-th.
template <int Items, int Lanes, bool striped>
inline int sim_item_of_warp(int i) {
    const int rank = static_cast<int>(sim_logical_warp<Lanes>::rank());
    return striped ? rank + i * Lanes : rank * Items + i;
}

template <class T, int Items, WarpLoadAlgorithm Algorithm = WARP_LOAD_DIRECT, int Lanes = 32, int Arch = 0>
class WarpLoad {
    static int item(int i) { return sim_item_of_warp<Items, Lanes, Algorithm == WARP_LOAD_STRIPED>(i); }

  public:
    struct TempStorage {
        TempStorage& Alias() { return *this; }
    };
    WarpLoad() = default;
    explicit WarpLoad(TempStorage&) {}
    template <class It> void Load(It in, T (&items)[Items]) { Load(in, items, Items * Lanes); }
    template <class It> void Load(It in, T (&items)[Items], int valid) {
        for (int i = 0; i < Items; ++i)
            if (item(i) < valid) items[i] = in[item(i)];
    }
    template <class It, class D> void Load(It in, T (&items)[Items], int valid, D other) {
        for (int i = 0; i < Items; ++i) items[i] = item(i) < valid ? static_cast<T>(in[item(i)]) : static_cast<T>(other);
    }
};

template <class T, int Items, WarpStoreAlgorithm Algorithm = WARP_STORE_DIRECT, int Lanes = 32, int Arch = 0>
class WarpStore {
    static int item(int i) { return sim_item_of_warp<Items, Lanes, Algorithm == WARP_STORE_STRIPED>(i); }

  public:
    struct TempStorage {
        TempStorage& Alias() { return *this; }
    };
    WarpStore() = default;
    explicit WarpStore(TempStorage&) {}
    template <class It> void Store(It out, T (&items)[Items]) { Store(out, items, Items * Lanes); }
    template <class It> void Store(It out, T (&items)[Items], int valid) {
        for (int i = 0; i < Items; ++i)
            if (item(i) < valid) out[item(i)] = items[i];
    }
};

}  // namespace cub
