// The block- and warp-wide primitives of CUB on the CPU executor: same interface, own algorithms.
//
// A block primitive puts its operands into TempStorage, meets at a barrier and lets thread 0 do the work in thread
// order. As with CUB, TempStorage may be used again only after a barrier of the caller: check mode sees it otherwise.
#pragma once
#include "../sim_operators.h"
#include "../sim_warp.h"

namespace cub {

struct NullType {};

template <class Key_, class Value_>
struct KeyValuePair {
    typedef Key_ Key;
    typedef Value_ Value;
    Key key;
    Value value;
    KeyValuePair() = default;
    KeyValuePair(const Key& k, const Value& v) : key(k), value(v) {}
    bool operator!=(const KeyValuePair& b) const { return value != b.value || key != b.key; }
};

struct Sum { template <class A, class B> auto operator()(const A& a, const B& b) const { return a + b; } };
struct Difference { template <class A, class B> auto operator()(const A& a, const B& b) const { return a - b; } };
struct Max {
    template <class T> T operator()(const T& a, const T& b) const { return a < b ? b : a; }
};
struct Min {
    template <class T> T operator()(const T& a, const T& b) const { return b < a ? b : a; }
};
struct Equality { template <class T> bool operator()(const T& a, const T& b) const { return a == b; } };
struct Inequality { template <class T> bool operator()(const T& a, const T& b) const { return a != b; } };
/// Pairs with the largest (smallest) value; among equals the lower key.
struct ArgMax {
    template <class P> P operator()(const P& a, const P& b) const {
        return (a.value < b.value || (a.value == b.value && b.key < a.key)) ? b : a;
    }
};
struct ArgMin {
    template <class P> P operator()(const P& a, const P& b) const {
        return (b.value < a.value || (a.value == b.value && b.key < a.key)) ? b : a;
    }
};

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm {
    BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED
};
enum BlockStoreAlgorithm {
    BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED
};
enum BlockHistogramAlgorithm { BLOCK_HISTO_SORT, BLOCK_HISTO_ATOMIC };

inline int RowMajorTid(int x, int y, int) { return static_cast<int>(threadIdx.z) * y * x + static_cast<int>(threadIdx.y) * x + static_cast<int>(threadIdx.x); }
inline unsigned LaneId() { return sim_here.lane; }
inline unsigned WarpId() { return sim_here.warp; }

/// The caller's source line, as the identity of a barrier.
struct sim_site { int line; };
#define SIM_SITE ::cub::sim_site at = ::cub::sim_site{__builtin_LINE()}
inline void sim_sync(sim_site at) { sim_barrier(0, 0, at.line); }
inline unsigned sim_tid() { return sim_here.linear; }

/// Untyped shared storage: may stand in a union whatever T is.
template <class T, int Count>
struct sim_storage {
    alignas(T) unsigned char bytes[sizeof(T) * Count];
    T* data() { return reinterpret_cast<T*>(bytes); }
};

/// TempStorage handling common to all block primitives.
template <class Self, class Storage>
class sim_primitive {
  public:
    struct TempStorage : Storage {
        TempStorage& Alias() { return *this; }
    };
    sim_primitive() : temp(sim_shared_variable<TempStorage, Self>("cub TempStorage")) {}
    explicit sim_primitive(TempStorage& storage) : temp(storage) {}

  protected:
    TempStorage& temp;
};

// ---- direct loads and stores -------------------------------------------------------------------------------------
template <class T, int N, class It>
inline void LoadDirectBlocked(int tid, It in, T (&items)[N]) { for (int i = 0; i < N; ++i) items[i] = in[tid * N + i]; }
template <class T, int N, class It>
inline void LoadDirectBlocked(int tid, It in, T (&items)[N], int valid) {
    for (int i = 0; i < N; ++i) if (tid * N + i < valid) items[i] = in[tid * N + i];
}
template <class T, int N, class It, class D>
inline void LoadDirectBlocked(int tid, It in, T (&items)[N], int valid, D other) {
    for (int i = 0; i < N; ++i) items[i] = tid * N + i < valid ? static_cast<T>(in[tid * N + i]) : static_cast<T>(other);
}
template <int Threads, class T, int N, class It>
inline void LoadDirectStriped(int tid, It in, T (&items)[N]) { for (int i = 0; i < N; ++i) items[i] = in[tid + i * Threads]; }
template <int Threads, class T, int N, class It>
inline void LoadDirectStriped(int tid, It in, T (&items)[N], int valid) {
    for (int i = 0; i < N; ++i) if (tid + i * Threads < valid) items[i] = in[tid + i * Threads];
}
template <int Threads, class T, int N, class It, class D>
inline void LoadDirectStriped(int tid, It in, T (&items)[N], int valid, D other) {
    for (int i = 0; i < N; ++i) items[i] = tid + i * Threads < valid ? static_cast<T>(in[tid + i * Threads]) : static_cast<T>(other);
}
template <class T, int N, class It>
inline void StoreDirectBlocked(int tid, It out, T (&items)[N]) { for (int i = 0; i < N; ++i) out[tid * N + i] = items[i]; }
template <class T, int N, class It>
inline void StoreDirectBlocked(int tid, It out, T (&items)[N], int valid) {
    for (int i = 0; i < N; ++i) if (tid * N + i < valid) out[tid * N + i] = items[i];
}
template <int Threads, class T, int N, class It>
inline void StoreDirectStriped(int tid, It out, T (&items)[N]) { for (int i = 0; i < N; ++i) out[tid + i * Threads] = items[i]; }
template <int Threads, class T, int N, class It>
inline void StoreDirectStriped(int tid, It out, T (&items)[N], int valid) {
    for (int i = 0; i < N; ++i) if (tid + i * Threads < valid) out[tid + i * Threads] = items[i];
}

/// Which threads exchange items through shared memory: the block, or each warp on its own.
template <int Threads, bool PerWarp>
struct sim_team {
    static int width() { return PerWarp ? (Threads < 32 ? Threads : 32) : Threads; }
    static int rank() { return PerWarp ? static_cast<int>(sim_here.lane) : static_cast<int>(sim_tid()); }
    static int base(int items) { return PerWarp ? static_cast<int>(sim_here.warp) * 32 * items : 0; }
    static void sync(sim_site at) {
        if (PerWarp) sim_warp_exchange(Threads < 32 ? (1u << (Threads & 31)) - 1u : 0xffffffffu, 0, -1, at.line);
        else sim_sync(at);
    }
};

template <class T, int X, int Items, BlockLoadAlgorithm Algorithm = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1, int Arch = 0>
class BlockLoad : public sim_primitive<BlockLoad<T, X, Items, Algorithm, Y, Z, Arch>, sim_storage<T, (Algorithm >= BLOCK_LOAD_TRANSPOSE ? X * Y * Z * Items : 1)>> {
    static constexpr int threads = X * Y * Z;
    typedef sim_primitive<BlockLoad, sim_storage<T, (Algorithm >= BLOCK_LOAD_TRANSPOSE ? threads * Items : 1)>> Base;
    typedef sim_team<threads, (Algorithm > BLOCK_LOAD_TRANSPOSE)> Team;

    template <class It, class Missing>
    void load(It in, T (&items)[Items], int valid, Missing missing, sim_site at) {
        if (Algorithm == BLOCK_LOAD_STRIPED) {
            for (int i = 0; i < Items; ++i) fetch(in, static_cast<int>(sim_tid()) + i * threads, valid, items[i], missing);
        } else if (Algorithm >= BLOCK_LOAD_TRANSPOSE) {
            T* const room = this->temp.data() + Team::base(Items);
            for (int i = 0; i < Items; ++i) {
                const int slot = Team::rank() + i * Team::width();
                const int index = Team::base(Items) + slot;
                if (index < valid) room[slot] = in[index];
            }
            Team::sync(at);
            for (int i = 0; i < Items; ++i) {
                const int slot = Team::rank() * Items + i;
                if (Team::base(Items) + slot < valid) items[i] = room[slot];
                else missing(items[i]);
            }
        } else {
            for (int i = 0; i < Items; ++i) fetch(in, static_cast<int>(sim_tid()) * Items + i, valid, items[i], missing);
        }
    }
    template <class It, class Missing>
    static void fetch(It in, int index, int valid, T& item, Missing missing) {
        if (index < valid) item = in[index];
        else missing(item);
    }

  public:
    using Base::Base;
    BlockLoad() = default;
    template <class It> void Load(It in, T (&items)[Items], SIM_SITE) { load(in, items, threads * Items, [](T&) {}, at); }
    template <class It> void Load(It in, T (&items)[Items], int valid, SIM_SITE) { load(in, items, valid, [](T&) {}, at); }
    template <class It, class D> void Load(It in, T (&items)[Items], int valid, D other, SIM_SITE) {
        load(in, items, valid, [&](T& item) { item = static_cast<T>(other); }, at);
    }
};

template <class T, int X, int Items, BlockStoreAlgorithm Algorithm = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1, int Arch = 0>
class BlockStore : public sim_primitive<BlockStore<T, X, Items, Algorithm, Y, Z, Arch>, sim_storage<T, (Algorithm >= BLOCK_STORE_TRANSPOSE ? X * Y * Z * Items : 1)>> {
    static constexpr int threads = X * Y * Z;
    typedef sim_primitive<BlockStore, sim_storage<T, (Algorithm >= BLOCK_STORE_TRANSPOSE ? threads * Items : 1)>> Base;
    typedef sim_team<threads, (Algorithm > BLOCK_STORE_TRANSPOSE)> Team;

  public:
    using Base::Base;
    BlockStore() = default;
    template <class It> void Store(It out, T (&items)[Items], SIM_SITE) { Store(out, items, threads * Items, at); }
    template <class It> void Store(It out, T (&items)[Items], int valid, SIM_SITE) {
        if (Algorithm == BLOCK_STORE_STRIPED) {
            StoreDirectStriped<threads>(static_cast<int>(sim_tid()), out, items, valid);
        } else if (Algorithm >= BLOCK_STORE_TRANSPOSE) {
            T* const room = this->temp.data() + Team::base(Items);
            for (int i = 0; i < Items; ++i) room[Team::rank() * Items + i] = items[i];
            Team::sync(at);
            for (int i = 0; i < Items; ++i) {
                const int slot = Team::rank() + i * Team::width();
                if (Team::base(Items) + slot < valid) out[Team::base(Items) + slot] = room[slot];
            }
        } else {
            StoreDirectBlocked(static_cast<int>(sim_tid()), out, items, valid);
        }
    }
};

// ---- reduce and scan ---------------------------------------------------------------------------------------------
template <class T, int N, class Op>
inline T ThreadReduce(const T (&items)[N], Op op) {
    T result = items[0];
    for (int i = 1; i < N; ++i) result = static_cast<T>(op(result, items[i]));
    return result;
}

template <class T, int X, BlockReduceAlgorithm Algorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1, int Arch = 0>
class BlockReduce : public sim_primitive<BlockReduce<T, X, Algorithm, Y, Z, Arch>, sim_storage<T, X * Y * Z>> {
    static constexpr int threads = X * Y * Z;
    typedef sim_primitive<BlockReduce, sim_storage<T, threads>> Base;

  public:
    using Base::Base;
    BlockReduce() = default;
    /// The fold over the first `valid` threads; valid in thread 0 only.
    template <class Op> T Reduce(T input, Op op, int valid, SIM_SITE) {
        T* const all = this->temp.data();
        all[sim_tid()] = input;
        sim_sync(at);
        if (sim_tid() != 0) return input;
        T result = all[0];
        for (int i = 1; i < valid; ++i) result = static_cast<T>(op(result, all[i]));
        return result;
    }
    template <class Op> T Reduce(T input, Op op, SIM_SITE) { return Reduce(input, op, threads, at); }
    template <int N, class Op> T Reduce(T (&items)[N], Op op, SIM_SITE) { return Reduce(ThreadReduce(items, op), op, threads, at); }
    T Sum(T input, SIM_SITE) { return Reduce(input, cub::Sum(), threads, at); }
    T Sum(T input, int valid, SIM_SITE) { return Reduce(input, cub::Sum(), valid, at); }
    template <int N> T Sum(T (&items)[N], SIM_SITE) { return Reduce(ThreadReduce(items, cub::Sum()), cub::Sum(), threads, at); }
};

template <class T, int X, BlockScanAlgorithm Algorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int Arch = 0>
class BlockScan : public sim_primitive<BlockScan<T, X, Algorithm, Y, Z, Arch>, sim_storage<T, X * Y * Z + 2>> {
    static constexpr int threads = X * Y * Z;
    typedef sim_primitive<BlockScan, sim_storage<T, threads + 2>> Base;

    /// Exclusive fold before this thread; `*any` is false where there is none. Slot `threads` takes the aggregate.
    template <class Op>
    T before(T partial, Op op, const T* initial, T& aggregate, bool* any, sim_site at) {
        T* const all = this->temp.data();
        all[sim_tid()] = partial;
        sim_sync(at);
        if (sim_tid() == 0) {
            T total = all[0];
            T running = initial ? (all[0] = *initial, static_cast<T>(op(*initial, total))) : total;
            for (int i = 1; i < threads; ++i) {
                const T item = all[i];
                all[i] = running;
                running = static_cast<T>(op(running, item));
                total = static_cast<T>(op(total, item));
            }
            all[threads] = total;
        }
        sim_sync(at);
        aggregate = all[threads];
        *any = initial != nullptr || sim_tid() != 0;
        return all[sim_tid()];
    }
    /// As `before`, with the block's prefix from a callback that the first warp runs.
    template <class Op, class Callback>
    T before_prefixed(T partial, Op op, Callback& callback, sim_site at) {
        T aggregate = partial;
        bool any;
        T mine = before(partial, op, nullptr, aggregate, &any, at);
        T* const all = this->temp.data();
        if (sim_tid() < 32) {
            const T prefix = callback(aggregate);
            if (sim_tid() == 0) all[threads + 1] = prefix;
        }
        sim_sync(at);
        const T prefix = all[threads + 1];
        return any ? static_cast<T>(op(prefix, mine)) : prefix;
    }
    template <int N, class Op>
    static void spread(T (&in)[N], T (&out)[N], T running, bool any, bool inclusive, Op op) {
        for (int i = 0; i < N; ++i) {
            const T item = in[i];
            const T next = any ? static_cast<T>(op(running, item)) : item;
            if (inclusive) out[i] = next;
            else if (any) out[i] = running;
            running = next;
            any = true;
        }
    }
    template <int N, class Op>
    void run(T (&in)[N], T (&out)[N], Op op, const T* initial, bool inclusive, T& aggregate, sim_site at) {
        bool any;
        const T running = before(ThreadReduce(in, op), op, initial, aggregate, &any, at);
        spread(in, out, running, any, inclusive, op);
    }
    template <int N, class Op, class Callback>
    void run_prefixed(T (&in)[N], T (&out)[N], Op op, bool inclusive, Callback& callback, sim_site at) {
        spread(in, out, before_prefixed(ThreadReduce(in, op), op, callback, at), true, inclusive, op);
    }
    template <class F> static void single(T input, T& output, F f) {
        T in[1] = {input}, out[1] = {output};
        f(in, out);
        output = out[0];
    }

  public:
    using Base::Base;
    BlockScan() = default;

    template <int N> void ExclusiveSum(T (&in)[N], T (&out)[N], SIM_SITE) { T a = in[0], zero = T(0); run(in, out, cub::Sum(), &zero, false, a, at); }
    template <int N> void ExclusiveSum(T (&in)[N], T (&out)[N], T& aggregate, SIM_SITE) { T zero = T(0); run(in, out, cub::Sum(), &zero, false, aggregate, at); }
    template <int N, class C> void ExclusiveSum(T (&in)[N], T (&out)[N], C& callback, SIM_SITE) { run_prefixed(in, out, cub::Sum(), false, callback, at); }
    void ExclusiveSum(T in, T& out, SIM_SITE) { single(in, out, [&](auto& i, auto& o) { ExclusiveSum(i, o, at); }); }
    void ExclusiveSum(T in, T& out, T& aggregate, SIM_SITE) { single(in, out, [&](auto& i, auto& o) { ExclusiveSum(i, o, aggregate, at); }); }
    template <class C> void ExclusiveSum(T in, T& out, C& callback, SIM_SITE) { single(in, out, [&](auto& i, auto& o) { ExclusiveSum(i, o, callback, at); }); }

    template <int N> void InclusiveSum(T (&in)[N], T (&out)[N], SIM_SITE) { T a = in[0]; run(in, out, cub::Sum(), nullptr, true, a, at); }
    template <int N> void InclusiveSum(T (&in)[N], T (&out)[N], T& aggregate, SIM_SITE) { run(in, out, cub::Sum(), nullptr, true, aggregate, at); }
    template <int N, class C> void InclusiveSum(T (&in)[N], T (&out)[N], C& callback, SIM_SITE) { run_prefixed(in, out, cub::Sum(), true, callback, at); }
    void InclusiveSum(T in, T& out, SIM_SITE) { single(in, out, [&](auto& i, auto& o) { InclusiveSum(i, o, at); }); }
    void InclusiveSum(T in, T& out, T& aggregate, SIM_SITE) { single(in, out, [&](auto& i, auto& o) { InclusiveSum(i, o, aggregate, at); }); }
    template <class C> void InclusiveSum(T in, T& out, C& callback, SIM_SITE) { single(in, out, [&](auto& i, auto& o) { InclusiveSum(i, o, callback, at); }); }

    // Without an initial value the first output of an exclusive scan is undefined.
    template <int N, class Op> void ExclusiveScan(T (&in)[N], T (&out)[N], Op op, SIM_SITE) { T a = in[0]; run(in, out, op, nullptr, false, a, at); }
    template <int N, class Op> void ExclusiveScan(T (&in)[N], T (&out)[N], T initial, Op op, SIM_SITE) { T a = in[0]; run(in, out, op, &initial, false, a, at); }
    template <int N, class Op> void ExclusiveScan(T (&in)[N], T (&out)[N], T initial, Op op, T& aggregate, SIM_SITE) { run(in, out, op, &initial, false, aggregate, at); }
    template <int N, class Op, class C> void ExclusiveScan(T (&in)[N], T (&out)[N], Op op, C& callback, SIM_SITE) { run_prefixed(in, out, op, false, callback, at); }
    template <int N, class Op> void ExclusiveScan(T (&in)[N], T (&out)[N], Op op, T& aggregate, SIM_SITE) { run(in, out, op, nullptr, false, aggregate, at); }
    template <class Op> void ExclusiveScan(T in, T& out, Op op, SIM_SITE) { single(in, out, [&](auto& i, auto& o) { ExclusiveScan(i, o, op, at); }); }
    template <class Op> void ExclusiveScan(T in, T& out, T initial, Op op, SIM_SITE) { single(in, out, [&](auto& i, auto& o) { ExclusiveScan(i, o, initial, op, at); }); }
    template <class Op> void ExclusiveScan(T in, T& out, T initial, Op op, T& aggregate, SIM_SITE) { single(in, out, [&](auto& i, auto& o) { ExclusiveScan(i, o, initial, op, aggregate, at); }); }
    template <class Op> void ExclusiveScan(T in, T& out, Op op, T& aggregate, SIM_SITE) { single(in, out, [&](auto& i, auto& o) { ExclusiveScan(i, o, op, aggregate, at); }); }
    template <class Op, class C> void ExclusiveScan(T in, T& out, Op op, C& callback, SIM_SITE) { single(in, out, [&](auto& i, auto& o) { ExclusiveScan(i, o, op, callback, at); }); }

    template <int N, class Op> void InclusiveScan(T (&in)[N], T (&out)[N], Op op, SIM_SITE) { T a = in[0]; run(in, out, op, nullptr, true, a, at); }
    template <int N, class Op> void InclusiveScan(T (&in)[N], T (&out)[N], Op op, T& aggregate, SIM_SITE) { run(in, out, op, nullptr, true, aggregate, at); }
    template <int N, class Op> void InclusiveScan(T (&in)[N], T (&out)[N], T initial, Op op, SIM_SITE) { T a = in[0]; run(in, out, op, &initial, true, a, at); }
    template <int N, class Op, class C> void InclusiveScan(T (&in)[N], T (&out)[N], Op op, C& callback, SIM_SITE) { run_prefixed(in, out, op, true, callback, at); }
    template <class Op> void InclusiveScan(T in, T& out, Op op, SIM_SITE) { single(in, out, [&](auto& i, auto& o) { InclusiveScan(i, o, op, at); }); }
    template <class Op> void InclusiveScan(T in, T& out, T initial, Op op, SIM_SITE) { single(in, out, [&](auto& i, auto& o) { InclusiveScan(i, o, initial, op, at); }); }
    template <class Op> void InclusiveScan(T in, T& out, Op op, T& aggregate, SIM_SITE) { single(in, out, [&](auto& i, auto& o) { InclusiveScan(i, o, op, aggregate, at); }); }
    template <class Op, class C> void InclusiveScan(T in, T& out, Op op, C& callback, SIM_SITE) { single(in, out, [&](auto& i, auto& o) { InclusiveScan(i, o, op, callback, at); }); }
};

}  // namespace cub
