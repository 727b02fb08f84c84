// Cooperative groups on the CPU executor: blocks, tiles of up to 32 threads, coalesced groups, the grid.
#pragma once
#include "sim_warp.h"

namespace cooperative_groups {

class thread_block {
  public:
    void sync(SIM_LINE) const { sim_barrier(0, 0, sim_line); }
    struct arrival_token {};
    arrival_token barrier_arrive() const { return {}; }
    void barrier_wait(arrival_token&&, SIM_LINE) const { sim_barrier(0, 0, sim_line); }
    static unsigned thread_rank() { return sim_here.linear; }
    static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
    static unsigned num_threads() { return size(); }
    static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }
};
inline thread_block this_thread_block() { return {}; }
template <unsigned int Threads> struct block_tile_memory {
    static_assert(Threads == 0, "cuda_harness unsupported: tiles of more than 32 threads");
};
template <unsigned int Threads> inline thread_block this_thread_block(block_tile_memory<Threads>&) { return {}; }

/// What tiles and coalesced groups share: a set of lanes of one warp.
class sim_lanes {
  public:
    unsigned sim_mask() const { return mask_; }
    void sync(SIM_LINE) const { sim_warp_exchange(mask_, 0, -1, sim_line); }
    struct arrival_token {};
    arrival_token barrier_arrive() const { return {}; }
    void barrier_wait(arrival_token&&, SIM_LINE) const { sim_warp_exchange(mask_, 0, -1, sim_line); }
    unsigned thread_rank() const { return static_cast<unsigned>(__builtin_popcount(mask_ & simg::lanes_below())); }
    unsigned size() const { return static_cast<unsigned>(__builtin_popcount(mask_)); }
    unsigned num_threads() const { return size(); }
    unsigned meta_group_rank() const { return meta_rank_; }
    unsigned meta_group_size() const { return meta_size_; }

    int any(int predicate, SIM_LINE) const { return simg::ballot(mask_, predicate != 0, sim_line) != 0; }
    int all(int predicate, SIM_LINE) const { return simg::ballot(mask_, predicate == 0, sim_line) == 0; }
    unsigned ballot(int predicate, SIM_LINE) const { return simg::pack(simg::ballot(mask_, predicate != 0, sim_line), mask_); }
    template <class T>
    unsigned match_any(T value, SIM_LINE) const { return simg::pack(simg::match(mask_, value, sim_line), mask_); }
    template <class T>
    unsigned match_all(T value, int& predicate, SIM_LINE) const {
        const unsigned same = simg::match(mask_, value, sim_line);
        predicate = same == mask_;
        return predicate ? simg::pack(same, mask_) : 0u;
    }
    template <class T>
    T shfl(T value, unsigned rank, SIM_LINE) const {
        // Ranks wrap, as the width of a hardware shuffle makes them do.
        return simg::exchange(mask_, value, simg::lane_of_rank(mask_, rank % size()), sim_line);
    }
    template <class T>
    T shfl_up(T value, unsigned delta, SIM_LINE) const {
        const unsigned rank = thread_rank();
        return simg::exchange(mask_, value, simg::lane_of_rank(mask_, delta > rank ? rank : rank - delta), sim_line);
    }
    template <class T>
    T shfl_down(T value, unsigned delta, SIM_LINE) const {
        const unsigned rank = thread_rank();
        return simg::exchange(mask_, value, simg::lane_of_rank(mask_, rank + delta < size() ? rank + delta : rank), sim_line);
    }
    template <class T>
    T shfl_xor(T value, unsigned with, SIM_LINE) const {
        const unsigned rank = thread_rank();
        return simg::exchange(mask_, value, simg::lane_of_rank(mask_, (rank ^ with) < size() ? rank ^ with : rank), sim_line);
    }

  protected:
    sim_lanes(unsigned mask, unsigned meta_rank, unsigned meta_size)
        : mask_(mask), meta_rank_(meta_rank), meta_size_(meta_size) {}
    unsigned mask_;
    unsigned meta_rank_;
    unsigned meta_size_;
};

template <unsigned int Size, class ParentT = void>
class thread_block_tile;

template <unsigned int Size>
class thread_block_tile<Size, void> : public sim_lanes {
    static_assert((Size & (Size - 1)) == 0, "the size of a tile must be a power of two");
    static_assert(Size <= 32, "cuda_harness unsupported: tiles of more than 32 threads");

  public:
    thread_block_tile(unsigned mask, unsigned meta_rank, unsigned meta_size) : sim_lanes(mask, meta_rank, meta_size) {}
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    static unsigned thread_rank() { return sim_here.linear & (Size - 1); }
};

template <unsigned int Size, class ParentT>
class thread_block_tile : public thread_block_tile<Size, void> {
  public:
    using thread_block_tile<Size, void>::thread_block_tile;
};

class coalesced_group : public sim_lanes {
  public:
    explicit coalesced_group(unsigned mask, unsigned meta_rank = 0, unsigned meta_size = 1)
        : sim_lanes(mask, meta_rank, meta_size) {}
};
inline coalesced_group coalesced_threads(SIM_LINE) { return coalesced_group(sim_active_mask(sim_line)); }

template <unsigned int Size>
inline unsigned sim_tile_mask() {
    constexpr unsigned whole = Size == 32 ? 0xffffffffu : (1u << (Size & 31u)) - 1u;
    return whole << (sim_here.lane & ~(Size - 1u));
}
template <unsigned int Size>
inline thread_block_tile<Size, thread_block> tiled_partition(const thread_block& g) {
    return {sim_tile_mask<Size>(), g.thread_rank() / Size, (g.size() + Size - 1) / Size};
}
template <unsigned int Size, unsigned int ParentSize, class P>
inline thread_block_tile<Size, thread_block_tile<ParentSize, P>> tiled_partition(const thread_block_tile<ParentSize, P>& g) {
    static_assert(Size <= ParentSize, "a tile is no larger than the tile it is cut from");
    return {sim_tile_mask<Size>(), g.thread_rank() / Size, ParentSize / Size};
}
inline coalesced_group tiled_partition(const coalesced_group& g, unsigned size) {
    const unsigned first = g.thread_rank() / size * size;
    unsigned mask = 0;
    for (unsigned rank = first; rank < first + size && rank < g.size(); ++rank)
        mask |= 1u << simg::lane_of_rank(g.sim_mask(), rank);
    return coalesced_group(mask, first / size, (g.size() + size - 1) / size);
}
template <unsigned int Size>
inline coalesced_group tiled_partition(const coalesced_group& g) { return tiled_partition(g, Size); }
inline coalesced_group tiled_partition(const thread_block& g, unsigned size) {
    const unsigned whole = size == 32 ? 0xffffffffu : (1u << size) - 1u;
    return coalesced_group(whole << (sim_here.lane & ~(size - 1u)), g.thread_rank() / size, (g.size() + size - 1) / size);
}

template <class Group, class Label>
inline coalesced_group labeled_partition(const Group& g, Label label, SIM_LINE) {
    const unsigned same = simg::match(g.sim_mask(), label, sim_line);
    // Groups are numbered by their lowest lane.
    std::uint64_t heads[32];
    sim_warp_gather(g.sim_mask(), same, heads, sim_line);
    unsigned rank = 0, count = 0;
    for (int lane = 0; lane < 32; ++lane)
        if (((g.sim_mask() >> lane) & 1u) && __builtin_ctz(static_cast<unsigned>(heads[lane])) == lane) {
            if (static_cast<unsigned>(heads[lane]) == same) rank = count;
            ++count;
        }
    return coalesced_group(same, rank, count);
}
template <class Group>
inline coalesced_group binary_partition(const Group& g, bool predicate, SIM_LINE) {
    const unsigned yes = simg::ballot(g.sim_mask(), predicate, sim_line);
    return coalesced_group(predicate ? yes : g.sim_mask() & ~yes, predicate ? 1u : 0u, 2u);
}

class grid_group {
  public:
    void sync(SIM_LINE) const { sim_grid_barrier(sim_line); }
    struct arrival_token {};
    arrival_token barrier_arrive() const { return {}; }
    void barrier_wait(arrival_token&&, SIM_LINE) const { sim_grid_barrier(sim_line); }
    static bool is_valid() { return true; }
    static unsigned long long num_blocks() { return static_cast<unsigned long long>(gridDim.x) * gridDim.y * gridDim.z; }
    static unsigned long long block_rank() {
        return (static_cast<unsigned long long>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    }
    static unsigned long long size() { return num_blocks() * thread_block::size(); }
    static unsigned long long num_threads() { return size(); }
    static unsigned long long thread_rank() { return block_rank() * thread_block::size() + thread_block::thread_rank(); }
    static dim3 dim_blocks() { return gridDim; }
    static dim3 group_dim() { return gridDim; }
    static dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
};
inline grid_group this_grid() { return {}; }

/// A group whose kind is known at run time only.
class thread_group {
  public:
    thread_group(const thread_block&) : mask_(0) {}
    thread_group(const sim_lanes& g) : mask_(g.sim_mask()) {}
    unsigned size() const { return mask_ ? static_cast<unsigned>(__builtin_popcount(mask_)) : thread_block::size(); }
    unsigned num_threads() const { return size(); }
    unsigned thread_rank() const {
        return mask_ ? static_cast<unsigned>(__builtin_popcount(mask_ & simg::lanes_below())) : thread_block::thread_rank();
    }
    void sync(SIM_LINE) const {
        if (mask_) sim_warp_exchange(mask_, 0, -1, sim_line);
        else sim_barrier(0, 0, sim_line);
    }

  private:
    friend thread_group this_thread();
    explicit thread_group(unsigned mask) : mask_(mask) {}
    unsigned mask_;
};
inline thread_group this_thread() { return thread_group(1u << sim_here.lane); }

// Clusters are declared so that their use is named, not mistaken for a misspelling.
class cluster_group {};
template <class Unused = void>
inline cluster_group this_cluster() {
    static_assert(sizeof(Unused*) == 0, "cuda_harness unsupported: thread block clusters");
    return {};
}

template <class Group>
inline void sync(const Group& g, SIM_LINE) { g.sync(sim_line); }
template <class Group>
inline auto thread_rank(const Group& g) { return g.thread_rank(); }
template <class Group>
inline auto group_size(const Group& g) { return g.size(); }

template <class Group, class Fn, class... Args>
inline void invoke_one(const Group& g, Fn&& fn, Args&&... args) {
    if (g.thread_rank() == 0) static_cast<Fn&&>(fn)(static_cast<Args&&>(args)...);
}
template <class Group, class Fn, class... Args>
inline auto invoke_one_broadcast(const Group& g, Fn&& fn, Args&&... args) {
    using Result = decltype(static_cast<Fn&&>(fn)(static_cast<Args&&>(args)...));
    Result result{};
    if (g.thread_rank() == 0) result = static_cast<Fn&&>(fn)(static_cast<Args&&>(args)...);
    return g.shfl(result, 0);
}

/// `to = op(to, value)` as one step, on an atomic object; returns what it was.
template <class Atomic, class T, class Op>
inline T sim_update(Atomic& to, const T& value, Op op) {
    T old = to.load();
    while (!to.compare_exchange_weak(old, static_cast<T>(op(old, value)))) {
    }
    return old;
}

// Operators of reduce and scan. `less` and `greater` are minimum and maximum, as in CUDA.
template <class T> struct plus { T operator()(const T& a, const T& b) const { return static_cast<T>(a + b); } };
template <class T> struct less { T operator()(const T& a, const T& b) const { return b < a ? b : a; } };
template <class T> struct greater { T operator()(const T& a, const T& b) const { return a < b ? b : a; } };
template <class T> struct bit_and { T operator()(const T& a, const T& b) const { return static_cast<T>(a & b); } };
template <class T> struct bit_or { T operator()(const T& a, const T& b) const { return static_cast<T>(a | b); } };
template <class T> struct bit_xor { T operator()(const T& a, const T& b) const { return static_cast<T>(a ^ b); } };

}  // namespace cooperative_groups
