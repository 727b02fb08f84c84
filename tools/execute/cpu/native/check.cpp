// Check mode: what the compiler's thread-sanitizer calls ask before each access of a kernel.
//
// Every word of device memory has a shadow cell: which bytes exist and were written, who wrote last and who read
// since. Time is a counter that moves at each launch, block start, barrier, warp operation and fence; an earlier
// access is ordered before this one when something that both took part in lies between (barriers, warp operations,
// a fence and an atomic of one side seen by an atomic of the other). All threads are fibers of one OS thread.
#include <link.h>
#include <sys/mman.h>
#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "runtime.h"

namespace {

constexpr uintptr_t kArena = 0x200000000000ull;
constexpr uintptr_t kArenaBytes = 16ull << 30;
constexpr uintptr_t kRedzone = 4096;
constexpr uintptr_t kStacks = 0x300000000000ull;
constexpr uintptr_t kStacksBytes = 8ull << 30;

// w: time:36 | thread:14 | read_only:1 | atomic:1 | valid:4 | init:4 | mask:4 of the last write
// r: time:36 | thread:14 | :3 | the write is a copy under way:1 | write by compare-and-swap:1 | volatile write:1 | atomic reads:1 | spread:3 | mask:4 of the reads since
struct Cell {
  uint64_t w, r;
};
constexpr uint64_t kReadOnly = 1u << 13, kAtomicWrite = 1u << 12;
constexpr uint64_t kCopyWrite = 1u << 10, kCasWrite = 1u << 9, kVolatileWrite = 1u << 8, kAtomicReads = 1u << 7;
constexpr unsigned kValidAt = 8, kInitAt = 4, kSpreadAt = 4;
enum Spread : unsigned { kOneReader, kOneWarp, kOneBlock, kManyBlocks };
enum How : unsigned { kRead = 0, kWrite = 1, kAtomic = 2, kVolatile = 4, kStore = 8, kCas = 16 };  // kStore: an atomic that reads nothing

Cell *g_cells = nullptr;
Cell *g_library_cells = nullptr;
uintptr_t g_library_low = 0, g_library_high = 0;
std::vector<sim_global> g_globals;  // device variables by name
std::vector<std::pair<uintptr_t, uintptr_t>> g_library_constant;
uintptr_t g_next = kArena;

uint64_t g_now = 1;
uint64_t g_floor = 1;        // all that happened before is ordered: launch start, grid barrier
uint64_t g_block_start = 1;  // of the block that runs (without cooperation)
uint64_t g_barrier = 1;      // last barrier of the block that runs
bool g_cooperative = false;
uint64_t g_warp_op = 0;  // last warp operation of any warp
bool g_fenced = false;  // some thread of this launch made a fence

struct WarpOp {
  uint64_t time;
  unsigned mask;
};
struct Block {
  uint64_t start = 0, barrier = 0, fence = 0;
  char *shared = nullptr, *dynamic = nullptr;
  size_t dynamic_bytes = 0;
  std::vector<WarpOp> ring;  // four a warp
};
std::vector<Block> g_blocks;  // resident ones, by slot
size_t g_started = 0;
std::vector<uint64_t> g_starts;  // start time of each block of the launch, in order
std::vector<uint64_t> g_start_numbers;
std::vector<uint64_t> g_fence_of(1u << 14, 0);

struct Variable {
  unsigned at;
  size_t bytes;
  std::string name;
};
std::vector<Variable> g_variables;

// What an atomic published, and what an atomic saw.
struct Release {
  uint64_t block;
  unsigned thread;
  uint64_t when, own, warp, all;  // limits: own writes, writes of the warp, of the block before these times
};
struct Acquire {
  uintptr_t address;
  uint64_t when;
  unsigned thread;
};
std::unordered_map<uintptr_t, std::vector<Release>> g_releases;
std::unordered_map<uint64_t, std::vector<Acquire>> g_acquires;  // by block number

struct Pending {
  uintptr_t address;
  unsigned bytes;
  unsigned char before[4];
  const void *pc;
  int line;
  sim_context where;
  unsigned other;
  uint64_t other_time;
  bool after_read;
};
Pending g_pending[8];
unsigned g_pending_count = 0;
struct Awaited {
  uintptr_t address;
  unsigned reader;
  const void *pc;
  sim_context where;
};
std::vector<Awaited> g_awaited;
std::unordered_set<const void *> g_same_value_seen;
uintptr_t g_spin_address = 0;
unsigned g_spin_thread = 0, g_spin_count = 0;

inline unsigned threads_of_block() {
  const dim3 d = sim_here.block_dim;
  return d.x * d.y * d.z;
}
inline uint64_t block_number() {
  const uint3 b = sim_here.block;
  const dim3 g = sim_here.grid_dim;
  return b.x + (uint64_t)g.x * (b.y + (uint64_t)g.y * b.z);
}
inline size_t slot() { return g_cooperative ? (size_t)block_number() : 0; }
inline unsigned me() {
  return g_cooperative ? (unsigned)(block_number() * threads_of_block()) + sim_here.linear : sim_here.linear;
}
inline uint64_t time_of(uint64_t record) { return record >> 28; }
inline unsigned thread_of(uint64_t record) { return (unsigned)(record >> 14) & 0x3fffu; }

// Ordered by the launch, by a barrier of the whole block, or by being the same thread.
inline bool quick(uint64_t record, unsigned self) {
  const uint64_t t = time_of(record);
  if (t < g_floor) return true;
  if (!g_cooperative) return t >= g_block_start && (t < g_barrier || thread_of(record) == self);
  if (thread_of(record) == self) return true;
  const unsigned n = threads_of_block();
  return thread_of(record) / n == self / n && t < g_blocks[self / n].barrier;
}

// Whether a record stands for several readers of which some may not be ordered before the thread that runs.
inline bool others_too(uint64_t record) {
  const unsigned spread = record >> kSpreadAt & 7;
  if (spread <= kOneReader) return false;
  if (!g_cooperative) return time_of(record) >= g_barrier;
  return time_of(record) >= (spread == kManyBlocks ? g_floor : g_blocks[slot()].barrier);
}

uint64_t block_of(uint64_t t, unsigned thread) {
  if (g_cooperative) return thread / threads_of_block();
  const auto next = std::upper_bound(g_starts.begin(), g_starts.end(), t);
  return next == g_starts.begin() ? 0 : g_start_numbers[(size_t)(next - g_starts.begin()) - 1];
}

bool warp_ordered(uint64_t t, unsigned other, unsigned self) {
  if (t >= g_warp_op) return false;
  const unsigned n = threads_of_block(), a = other % n, b = self % n;
  if (a / 32 != b / 32) return false;
  const Block &block = g_blocks[slot()];
  for (unsigned i = 0; i < 4 && b / 32 * 4 + i < block.ring.size(); ++i) {
    const WarpOp &op = block.ring[b / 32 * 4 + i];
    if (op.time > t && (op.mask >> (a & 31) & 1) && (op.mask >> (b & 31) & 1)) return true;
  }
  return false;
}

// Whether a release hands on what a thread of a block wrote before `t`.
inline bool covers(const Release &r, unsigned from_thread, uint64_t t) {
  const unsigned n = threads_of_block();
  return r.all > t || (r.thread == from_thread && r.own > t) || (r.thread % n / 32 == from_thread % n / 32 && r.warp > t);
}

// Whether what a block wrote has reached the block that runs, from atomic to atomic, over other blocks where need be. Each
// block is looked at again only for what it saw later: with a ticket that all have drawn, the paths between two are many.
bool published(uint64_t from_block, unsigned from_thread, uint64_t t, uint64_t to_block) {
  struct Seen {
    uint64_t block, until;
  };
  const unsigned self = me();
  std::unordered_map<uint64_t, uint64_t> looked{{to_block, g_now}};
  std::vector<Seen> next{{to_block, g_now}}, found;
  for (bool here = true; !next.empty(); here = false) {
    found.clear();
    for (const Seen &seen : next) {
      const auto acquires = g_acquires.find(seen.block);
      if (acquires == g_acquires.end()) continue;
      for (const Acquire &a : acquires->second) {
        if (a.when > seen.until) continue;
        if (here && a.thread != self && a.when >= g_blocks[slot()].barrier && !warp_ordered(a.when, a.thread, self)) continue;
        const auto releases = g_releases.find(a.address);
        if (releases == g_releases.end()) continue;
        for (auto r = releases->second.rbegin(); r != releases->second.rend(); ++r) {
          if (r->when > a.when) continue;
          if (r->block == from_block && covers(*r, from_thread, t)) return true;
          if (r->block == from_block || r->block == seen.block) continue;
          uint64_t &until = looked[r->block];
          if (until >= r->when) continue;
          until = r->when;
          found.push_back({r->block, r->when});
        }
      }
    }
    next.swap(found);
  }
  return false;
}

bool ordered(uint64_t record, unsigned self, unsigned spread) {
  const uint64_t t = time_of(record);
  const unsigned other = thread_of(record);
  const uint64_t from = block_of(t, other), to = block_number();
  const bool same_block = from == to && (g_cooperative || t >= g_block_start);
  if (same_block && spread <= kOneWarp && warp_ordered(t, other, self)) return true;
  return g_fenced && published(from, other, t, to);
}

// ---- words for a report ----
std::string plural(size_t n, const std::string &what) { return (n == 1 ? "one" : std::to_string(n)) + " " + what + (n == 1 ? "" : "s"); }

// Where an address lies, or what it lies nearest to; sets the buffer's name when it is one.
std::string place(uintptr_t a, unsigned n, std::string *buffer) {
  const bool global = a >= g_library_low && a < g_library_high;
  if (!global && a - kArena >= kArenaBytes) return "";
  uintptr_t nearest = 1ull << 33;
  std::string text;
  auto consider = [&](uintptr_t low, size_t bytes, size_t item, const std::string &type, const std::string &name, const std::string *own) {
    const uintptr_t high = low + bytes, d = a < low ? low - a : a >= high ? a - high + 1 : 0;
    if (d >= nearest) return;
    nearest = d;
    text = beside(a, n, low, bytes, item, type, name);
    if (buffer) *buffer = own ? *own : "";
  };
  if (global) {
    for (const sim_global &v : g_globals) consider((uintptr_t)v.at, v.bytes, v.item, v.item == 1 ? "byte" : "element", "device variable `" + std::string(v.name) + "`", nullptr);
    return nearest < 64 ? text : "a device variable";
  }
  for (const Buffer &b : g_buffers)
    if (b.data) consider((uintptr_t)b.data, b.bytes, b.item, type_name(b.dtype), "`" + b.name + "`", &b.name);
  for (const Block &b : g_blocks) {
    if (!b.shared) continue;
    for (const Variable &v : g_variables)
      consider((uintptr_t)b.shared + v.at, v.bytes, 1, "byte", "shared variable `" + v.name + "`", nullptr);
    consider((uintptr_t)b.dynamic, b.dynamic_bytes, 1, "byte", "dynamic shared memory", nullptr);
  }
  return text;
}

std::string three(uint3 v) { return "[" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + "]"; }
std::string shown(uint3 v) { return "(" + std::to_string(v.x) + ", " + std::to_string(v.y) + ", " + std::to_string(v.z) + ")"; }

uint3 thread_index(unsigned thread) {
  const dim3 d = sim_here.block_dim;
  const unsigned l = thread % threads_of_block();
  return {l % d.x, l / d.x % d.y, l / d.x / d.y};
}

std::string where(const void *pc, int line, const std::string &buffer) {
  return where_json(line ? nullptr : pc, line) + (buffer.empty() ? "" : ",\"buffer\":" + json_text(buffer));
}

void report_unset();

[[noreturn]] void bad_access(uintptr_t a, unsigned n, unsigned how, const void *pc, int line) {
  report_unset();  // what follows may come of the garbage that was read
  std::string buffer;
  const std::string text = place(a, n, &buffer), verb = how & kWrite ? "write" : "read";
  if (a < 65536)
    report_fault("out_of_bounds", verb + " through a null pointer (address " + std::to_string(a) + ")", where(pc, line, ""));
  if (text.empty())
    report_fault("out_of_bounds", verb + " of " + plural(n, "byte") + " at an address that belongs to nothing (a wild pointer)", where(pc, line, ""));
  report_fault("out_of_bounds", verb + " of " + plural(n, "byte") + ", " + text, where(pc, line, buffer));
}

[[noreturn]] void race(uintptr_t a, unsigned n, bool now_writes, bool other_wrote, unsigned other, uint64_t t, const void *pc, int line,
                       const char *more = "") {
  std::string buffer;
  const std::string text = place(a, n, &buffer);
  const uint64_t block = block_of(t, other);
  const bool same = block == block_number() && (g_cooperative || t >= g_block_start);
  const uint3 index = thread_index(other);
  const dim3 g = sim_here.grid_dim;
  const uint3 other_block = {(unsigned)(block % g.x), (unsigned)(block / g.x % g.y), (unsigned)(block / g.x / g.y)};
  const std::string who = "thread " + shown(index) + (same ? " of the same block" : " of block " + shown(other_block));
  report_fault("data_race",
               std::string(now_writes ? "write" : "read") + " of " + text + " is not ordered after the " + (other_wrote ? "write" : "read") +
                   " by " + who + more,
               where(pc, line, buffer) + ",\"other_thread\":" + three(index) + ",\"other_block\":" + three(same ? sim_here.block : other_block));
}

// A store that several threads make is no fault when it changes nothing: seen once it has happened.
void resolve_pending() {
  const unsigned count = g_pending_count;
  g_pending_count = 0;
  for (unsigned i = 0; i < count; ++i) {
    const Pending &p = g_pending[i];
    if (memcmp((const void *)p.address, p.before, p.bytes) == 0) {
      if (g_same_value_seen.insert(p.pc).second) {
        std::string buffer;
        const std::string text = place(p.address, p.bytes, &buffer);
        add_warning("several threads write the same value without order: " + text + " (kernel " + g_kernel_name + ")");
      }
      continue;
    }
    sim_here.block = p.where.block;
    sim_here.thread = p.where.thread;
    sim_here.linear = p.where.linear;
    race(p.address, p.bytes, true, !p.after_read, p.other, p.other_time, p.pc, p.line);
  }
}

void await_store(uintptr_t a, unsigned n, uint64_t record, bool after_read, const void *pc, int line) {
  if (g_pending_count == 8) return;
  Pending &p = g_pending[g_pending_count++];
  p.address = a;
  p.bytes = n;
  memcpy(p.before, (const void *)a, n);
  p.pc = pc;
  p.line = line;
  p.where = sim_here;
  p.other = thread_of(record);
  p.other_time = time_of(record);
  p.after_read = after_read;
}

// Stores that the compiler does not announce (a struct returned by a function) show as bytes unlike the poison.
bool looks_written(uintptr_t a, unsigned n) {
  const unsigned char *p = (const unsigned char *)a;
  for (const Buffer &b : g_buffers)
    if (b.data && a >= (uintptr_t)b.data && a < (uintptr_t)b.data + b.bytes) {
      for (unsigned i = 0; i < n; ++i)
        if (p[i] != poison_byte(a + i - (uintptr_t)b.data)) return true;
      return false;
    }
  for (unsigned i = 0; i < n; ++i)
    if (p[i] != kGarbage) return true;
  return false;
}

[[noreturn]] void uninitialized(uintptr_t a, unsigned n, unsigned how, const void *pc, int line) {
  std::string buffer;
  const std::string text = place(a, n, &buffer);
  report_fault("uninitialized_read", std::string(how & kAtomic ? "atomic on " : "read of ") + text + ", which nothing has written", where(pc, line, buffer));
}

bool in_shared(uintptr_t a);

// A read of shared memory that nobody wrote yet: a race if another thread writes it before the next barrier.
struct Unset {
  bool there = false;
  uintptr_t address = 0;
  unsigned bytes = 0;
  const void *pc = nullptr;
  int line = 0;
  sim_context where;
} g_unset;

void become(const sim_context &c) {
  sim_here.block = c.block;
  sim_here.thread = c.thread;
  sim_here.linear = c.linear;
}

void report_unset() {
  if (!g_unset.there) return;
  g_unset.there = false;
  become(g_unset.where);
  uninitialized(g_unset.address, g_unset.bytes, kRead, g_unset.pc, g_unset.line);
}

bool in_shared(uintptr_t a) {
  for (const Block &b : g_blocks)
    if (b.shared && a - (uintptr_t)b.shared < kSharedBytes + kDynamicBytes) return true;
  return false;
}

void note_release(uintptr_t a, unsigned self, bool release_order) {
  const uint64_t fence = g_fence_of[self];
  Block &b = g_blocks[slot()];
  if (!release_order && fence < g_floor && b.fence < g_floor) return;
  Release r{};
  r.block = block_number();
  r.thread = self;
  r.when = g_now;
  const uint64_t own = release_order ? g_now + 1 : std::max(fence, g_floor);
  uint64_t warp = 0;
  const unsigned lane = sim_here.lane, w = sim_here.linear / 32;
  for (unsigned i = 0; i < 4 && w * 4 + i < b.ring.size(); ++i)
    if (b.ring[w * 4 + i].mask >> lane & 1) warp = std::max(warp, b.ring[w * 4 + i].time);
  r.own = own;
  r.warp = std::min(warp, own);
  r.all = std::min(b.barrier, std::max(own, b.fence));
  std::vector<Release> &list = g_releases[a];
  for (const Release &old : list)
    if (old.block == r.block && old.thread == r.thread && old.own == r.own && old.all == r.all && old.warp == r.warp) return;
  if (list.size() >= 4096) list.erase(list.begin(), list.begin() + 2048);
  list.push_back(r);
  if (release_order) ++g_now;
}

void note_acquire(uintptr_t a, unsigned self) {
  if (g_releases.find(a) == g_releases.end()) return;
  std::vector<Acquire> &list = g_acquires[block_number()];
  for (Acquire &old : list)
    if (old.address == a && old.thread == self) {
      old.when = g_now;
      return;
    }
  if (list.size() < 65536) list.push_back({a, g_now, self});
}

// ---- one word ----
template <unsigned how, bool device_global>
inline __attribute__((always_inline)) void touch(Cell &c, unsigned mask, uintptr_t a, unsigned n, unsigned self, const void *pc, int line) {
  const uint64_t w = c.w;
  const bool soft = how & (kAtomic | kVolatile);
  if (device_global && __builtin_expect((w & kReadOnly) != 0, 0)) bad_access(a, n, how, pc, line);
  if (!device_global) {
    if (__builtin_expect((w >> kValidAt & mask) != mask, 0)) bad_access(a, n, how, pc, line);
    if ((how & kWrite) && __builtin_expect((w & kReadOnly) != 0, 0)) {
      std::string buffer;
      const std::string text = place(a, n, &buffer);
      report_fault("input_modified", "write to " + text + ", which is an input: inputs are read-only", where(pc, line, buffer));
    }
    if ((!(how & kWrite) || (how & (kAtomic | kStore)) == kAtomic) && __builtin_expect((w >> kInitAt & mask) != mask, 0)) {
      const unsigned missing = mask & ~(unsigned)(w >> kInitAt);
      const unsigned first = (unsigned)__builtin_ctz(missing), last = 31u - (unsigned)__builtin_clz(missing);
      if (!looks_written((a & ~3ull) + first, last - first + 1)) {
        if ((how & kAtomic) || !in_shared(a)) uninitialized(a, n, how, pc, line);
        if (!g_unset.there) {
          g_unset = Unset{true, a, n, pc, line, sim_here};
        }
      }
      c.w |= (uint64_t)mask << kInitAt;
    }
  }
  if ((w & mask) && __builtin_expect(!quick(w, self), 0) && !ordered(w, self, kOneReader)) {
    const bool other_soft = (w & kAtomicWrite) || (c.r & kVolatileWrite);
    if ((how & kWrite) && (c.r & kCopyWrite)) {
      // What a copy under way writes is known when it lands: the same value, perhaps.
    } else if (!soft && !(how & kWrite) && (c.r & kCasWrite)) {
      // A guess that a compare-and-swap loop starts from: a stale one costs a turn of the loop.
    } else if (!soft || !other_soft) {
      if (how & kWrite && !(how & kAtomic))
        await_store(a, n, w, false, pc, line);
      else
        race(a, n, how & kWrite, true, thread_of(w), time_of(w), pc, line, other_soft && !soft ? " (an atomic or volatile access)" : "");
    } else if ((how & kVolatile) && (how & kWrite) && g_fence_of[self] <= time_of(w)) {
      await_store(a, n, w, false, pc, line);
    }
  }
  if (how & kWrite) {
    const uint64_t r = c.r;
    bool keep_readers = false;
    if ((r & mask) && __builtin_expect(!quick(r, self) || others_too(r), 0)) {
      const unsigned spread = r >> kSpreadAt & 7;
      const bool mine_only = thread_of(r) == self && spread == kOneReader && time_of(r) >= g_block_start;
      if (!mine_only && !ordered(r, self, spread)) {
        if (!soft || !(r & kAtomicReads)) {
          if (how & kCas)
            keep_readers = false;
          else if (how & kAtomic)
            race(a, n, true, false, thread_of(r), time_of(r), pc, line);
          else if (!(time_of(r) < g_floor)) {
            await_store(a, n, r, true, pc, line);
            keep_readers = true;  // this store may change nothing, the next one may
          }
        } else if ((how & kVolatile) && !device_global && thread_of(r) != self && thread_of(r) / 32 == self / 32 && in_shared(a)) {
          g_awaited.push_back({a, thread_of(r), pc, sim_here});
        }
      }
    }
    c.w = g_now << 28 | (uint64_t)self << 14 | (soft ? kAtomicWrite : 0) | (c.w & (kReadOnly | 0xf0ull | 0xf00ull)) |
          (uint64_t)mask << kInitAt | mask;
    c.r = keep_readers ? r : how & kVolatile ? kVolatileWrite : how & kCas ? kCasWrite : 0;
    return;
  }
  if (!device_global && (w & kReadOnly)) return;
  const uint64_t r = c.r;
  // Many threads read one word between two barriers: nothing new is learnt of it.
  if (!soft && (r >> kSpreadAt & 7) >= kOneBlock && time_of(r) >= g_barrier && (r & mask) == mask && !(r & kAtomicReads) && !g_cooperative) return;
  uint64_t spread = 0, soft_bit = soft ? kAtomicReads : 0, bits = mask;
  if ((r & 15) && (!quick(r, self) || others_too(r)) &&
      !(thread_of(r) == self && !(r >> kSpreadAt & 7) && time_of(r) >= g_block_start)) {
    const unsigned other = thread_of(r);
    spread = r >> kSpreadAt & 7;
    if (other != self || time_of(r) < g_block_start) {
      const bool same_block = g_cooperative ? other / threads_of_block() == self / threads_of_block() : time_of(r) >= g_block_start;
      const unsigned now = !same_block ? kManyBlocks : other / 32 == self / 32 ? kOneWarp : kOneBlock;
      spread = std::max<uint64_t>(spread, now);
    }
    if (spread == kOneWarp && warp_ordered(time_of(r), other, self)) spread = 0;
    if (spread) soft_bit &= r, bits |= r & 15;
  }
  c.r = g_now << 28 | (uint64_t)self << 14 | (r & (kCopyWrite | kCasWrite | kVolatileWrite)) | soft_bit | spread << kSpreadAt | bits;
}

template <unsigned how, bool device_global>
inline __attribute__((always_inline)) void span(Cell *cells, uintptr_t base, uintptr_t a, unsigned n, const void *pc, int line) {
  const unsigned self = me();
  Cell *c = cells + ((a - base) >> 2);
  const unsigned low = a & 3;
  if (low + n <= 4) {
    touch<how, device_global>(*c, ((1u << n) - 1) << low, a, n, self, pc, line);
    return;
  }
  uintptr_t at = a;
  const uintptr_t end = a + n;
  while (at < end) {
    const unsigned first = at & 3, count = (unsigned)std::min<uintptr_t>(4 - first, end - at);
    touch<how, device_global>(*c++, ((1u << count) - 1) << first, at, count, self, pc, line);
    at += count;
  }
}

// Local variables between zones: a byte of shadow for each of the stacks, set within the zones.
struct Local {
  size_t bytes, item, zone;
  const char *name;
};
unsigned char *g_zones = nullptr;
std::unordered_map<uintptr_t, Local> g_locals;

[[noreturn]] void bad_local(uintptr_t a, unsigned n, unsigned how, const void *pc, int line) {
  report_unset();
  std::string text = "beside a local variable";
  for (const auto &[at, l] : g_locals)
    if (a + n > at - l.zone && a < at + l.bytes + l.zone)
      text = beside(a, n, at, l.bytes, l.item, l.item == 1 ? "byte" : "element", "local variable `" + std::string(l.name) + "`");
  report_fault("out_of_bounds", (how & kWrite ? "write of " : "read of ") + plural(n, "byte") + ", " + text, where(pc, line, ""));
}

template <unsigned how> __attribute__((noinline)) void outside(uintptr_t a, unsigned n, const void *pc, int line) {
  if (a - kStacks < kStacksBytes) {  // a local variable (fragments of a warp are read by all its lanes)
    const unsigned char *zone = g_zones + (a - kStacks);
    if (__builtin_expect(zone[0] | zone[n - 1], 0)) bad_local(a, n, how, pc, line);
    return;
  }
  if (a >= g_library_low && a < g_library_high) {
    span<how, true>(g_library_cells, g_library_low & ~3ull, a, n, pc, line);
    if (__builtin_expect(g_count, 0)) count_access(a, n, how & kWrite, how & kAtomic, false, pc);
    return;
  }
  for (const auto &range : g_library_constant)
    if (a >= range.first && a < range.second) {
      if (how & kWrite) report_fault("out_of_bounds", "write to constant memory", where(pc, line, ""));
      return;
    }
  bad_access(a, n, how, pc, line);
}

template <unsigned how> inline __attribute__((always_inline)) void access(uintptr_t a, unsigned n, const void *pc, int line = 0) {
  if (__builtin_expect(g_pending_count != 0, 0)) resolve_pending();
  if (__builtin_expect(a - kArena < kArenaBytes, 1)) {
    span<how, false>(g_cells, kArena, a, n, pc, line);
    if (__builtin_expect(g_count, 0)) count_access(a, n, how & kWrite, how & kAtomic, in_shared(a), pc);
  } else if (a - (uintptr_t)&sim_here >= sizeof(sim_here))
    outside<how>(a, n, pc, line);
}

// A copy in the background may write from now on: nobody may still read or write there, nor before it has landed.
void copy_begins(uintptr_t a, unsigned n, const void *pc) {
  if (a - kArena >= kArenaBytes) return;  // found where it lands
  const unsigned self = me();
  for (uintptr_t at = a, end = a + n; at < end;) {
    const unsigned first = at & 3, count = (unsigned)std::min<uintptr_t>(4 - first, end - at), mask = ((1u << count) - 1) << first;
    Cell &c = g_cells[(at - kArena) >> 2];
    const uint64_t w = c.w, r = c.r;
    const unsigned spread = r >> kSpreadAt & 7;
    const char *more = " (the write of an asynchronous copy may come as soon as it is issued)";
    const bool mine_only = thread_of(r) == self && spread == kOneReader && time_of(r) >= g_block_start;
    if ((r & mask) && (!quick(r, self) || others_too(r)) && !mine_only && !ordered(r, self, spread))
      race(at, count, true, false, thread_of(r), time_of(r), pc, 0, more);
    // A write that is not ordered before it stays on record: whether it wrote the same is seen when the copy lands.
    const bool clear = !(w & mask) || quick(w, self) || ordered(w, self, kOneReader);
    if (clear && (w >> kValidAt & mask) == mask && !(w & kReadOnly)) {
      c.w = g_now << 28 | (uint64_t)self << 14 | (w & (0xf0ull | 0xf00ull)) | mask;
      c.r = kCopyWrite;
    }
    at += count;
  }
}

// A thread that reads one place again and again waits for another thread: let that one run.
void spin(uintptr_t a) {
  const unsigned self = me();
  if (a == g_spin_address && self == g_spin_thread) {
    if (++g_spin_count >= 16) {
      g_spin_count = 0;
      sim_yield();
    }
    return;
  }
  g_spin_address = a;
  g_spin_thread = self;
  g_spin_count = 0;
}

void volatile_read(uintptr_t a, unsigned n, const void *pc) {
  spin(a);
  access<kRead | kVolatile>(a, n, pc);
  if (g_fenced) note_acquire(a, me());
  if (!g_awaited.empty()) {
    const unsigned self = me();
    g_awaited.erase(std::remove_if(g_awaited.begin(), g_awaited.end(), [&](const Awaited &w) { return w.reader == self && w.address == a; }),
                    g_awaited.end());
  }
}

void volatile_write(uintptr_t a, unsigned n, const void *pc) {
  access<kWrite | kVolatile>(a, n, pc);
  if (g_fenced) note_release(a, me(), false);
}

inline bool releases(int order) { return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST; }

template <unsigned how> void atomic_access(uintptr_t a, unsigned n, int order, const void *pc) {
  constexpr bool writes = how & kWrite;
  access<how | kAtomic>(a, n, pc);
  const unsigned self = me();
  if (g_fenced || releases(order)) {
    if (releases(order)) g_fenced = true;
    note_acquire(a, self);
    if (writes) note_release(a, self, releases(order));
  }
}

void report_awaited(unsigned reader, bool all) {
  for (const Awaited &w : g_awaited)
    if (all || w.reader == reader) {
      const uintptr_t a = w.address;
      race(a, 4, false, true, w.where.linear, g_now, w.pc, 0, ": volatile does not keep the lanes of a warp in step, __syncwarp() does");
    }
}

int find_library(dl_phdr_info *info, size_t, void *) {
  const std::string name = info->dlpi_name ? info->dlpi_name : "";
  if (name.size() < 9 || name.compare(name.size() - 9, 9, "kernel.so") != 0) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &p = info->dlpi_phdr[i];
    if (p.p_type != PT_LOAD) continue;
    const uintptr_t low = info->dlpi_addr + p.p_vaddr, high = low + p.p_memsz;
    if (p.p_flags & PF_W) {
      g_library_low = g_library_low ? std::min(g_library_low, low) : low;
      g_library_high = std::max(g_library_high, high);
    } else {
      g_library_constant.push_back({low, high});
    }
  }
  return 1;
}

void set_range(uintptr_t a, size_t bytes, uint64_t flags_of_byte) {
  // flags_of_byte: 1 valid, 2 init; others are cleared together with every record of the past.
  for (uintptr_t at = a, end = a + bytes; at < end;) {
    const unsigned first = at & 3, count = (unsigned)std::min<uintptr_t>(4 - first, end - at);
    const uint64_t mask = ((1u << count) - 1) << first;
    Cell &c = g_cells[(at - kArena) >> 2];
    c.w = (c.w & 0xff0ull & ~(mask << kValidAt) & ~(mask << kInitAt)) | (flags_of_byte & 1 ? mask << kValidAt : 0) |
          (flags_of_byte & 2 ? mask << kInitAt : 0);
    c.r = 0;
    at += count;
  }
}

void map_library() {
  if (g_library_low || !dl_iterate_phdr(find_library, nullptr) || !g_library_low) return;
  const size_t bytes = (g_library_high - (g_library_low & ~3ull)) / 4 * sizeof(Cell) + 65536;
  g_library_cells = (Cell *)mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (g_library_cells == MAP_FAILED) report_not_run("resources", "no memory for the shadow of device globals");
}

}  // namespace

void check_copy_begins(const void *to, unsigned bytes, const void *pc) { copy_begins((uintptr_t)to, bytes, pc); }

void check_setup() {
  void *arena = mmap((void *)kArena, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  g_cells = (Cell *)mmap(nullptr, kArenaBytes / 4 * sizeof(Cell), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  g_zones = (unsigned char *)mmap(nullptr, kStacksBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (arena != (void *)kArena || g_cells == MAP_FAILED || g_zones == MAP_FAILED) report_not_run("resources", "no address space for the shadow memory of check mode");
}

char *check_allocate(size_t bytes) {
  const uintptr_t at = g_next + kRedzone;
  if (at + bytes + 2 * kRedzone > kArena + kArenaBytes) report_not_run("resources", "check mode holds at most 16 GiB of device memory");
  g_next = (at + bytes + 255) / 256 * 256;
  return (char *)at;
}

void *check_stack(size_t bytes) {
  static uintptr_t next = kStacks;
  const uintptr_t at = next;
  next += (bytes + 4095) / 4096 * 4096;
  return (void *)at;
}

void check_globals(const sim_global *first, const sim_global *end) {
  map_library();
  if (!g_library_cells) return;
  for (const sim_global *v = first; v < end; ++v)
    if (v->name)
      g_globals.push_back(*v);
    else
      for (uintptr_t a = (uintptr_t)v->at, stop = a + v->bytes; a < stop; a += 4)
        g_library_cells[(a - (g_library_low & ~3ull)) >> 2].w |= kReadOnly;
}

void check_add_range(char *address, size_t bytes, bool initialised) {
  set_range((uintptr_t)address, bytes, initialised ? 3 : 1);
  for (const Buffer &b : g_buffers)
    if (b.data == address && b.role == 'i')
      for (size_t i = 0; i < (bytes + 3) / 4; ++i) g_cells[((uintptr_t)address - kArena) / 4 + i].w |= kReadOnly;
}

bool check_written(const char *address, size_t bytes) {
  if (g_pending_count) resolve_pending();
  report_unset();
  for (size_t i = 0; i < bytes; ++i) {
    const uintptr_t a = (uintptr_t)address + i;
    if (!(g_cells[(a - kArena) >> 2].w >> kInitAt >> (a & 3) & 1)) return looks_written((uintptr_t)address, (unsigned)bytes);
  }
  return true;
}

void check_launch(bool cooperative) {
  map_library();
  if (g_pending_count) resolve_pending();
  report_unset();
  if (g_count) count_launch(cooperative);
  g_cooperative = cooperative;
  g_floor = ++g_now;
  g_fenced = false;
  g_started = 0;
  g_starts.clear();
  g_start_numbers.clear();
  g_releases.clear();
  g_acquires.clear();
  g_awaited.clear();
  g_block_start = g_barrier = g_now;
}

void check_block_start(size_t number, char *shared, size_t, char *dynamic, size_t dynamic_bytes) {
  if (g_pending_count) resolve_pending();
  report_unset();
  if (g_count) count_block(threads_of_block());
  const size_t at = g_cooperative ? g_started : 0;
  if (g_blocks.size() <= at) g_blocks.resize(at + 1);
  if (!g_cooperative && g_blocks.size() > 1) g_blocks.resize(1);
  Block &b = g_blocks[at];
  b.start = b.barrier = ++g_now;
  b.fence = 0;
  b.shared = shared;
  b.dynamic = dynamic;
  if (dynamic_bytes < b.dynamic_bytes) set_range((uintptr_t)dynamic + dynamic_bytes, b.dynamic_bytes - dynamic_bytes, 0);
  b.dynamic_bytes = dynamic_bytes;
  b.ring.assign(32 * 4, WarpOp{0, 0});
  if (!g_cooperative) g_block_start = g_barrier = b.start;
  g_starts.push_back(b.start);
  g_start_numbers.push_back(number);
  ++g_started;
  for (const Variable &v : g_variables) set_range((uintptr_t)shared + v.at, v.bytes, 1);
  if (dynamic_bytes) set_range((uintptr_t)dynamic, dynamic_bytes, 1);
}

// One byte for each of the kernel's code: set when the basic block that begins there has run.
static std::vector<unsigned char> g_reached;

extern "C" void __sanitizer_cov_trace_pc() {
  const uintptr_t pc = (uintptr_t)__builtin_return_address(0);
  if (pc < g_text_low || pc >= g_text_high) return;
  if (g_reached.empty()) g_reached.resize(g_text_high - g_text_low);
  g_reached[pc - g_text_low] = 1;
}

std::string reached_json(uintptr_t base) {
  std::string out = "[";
  for (size_t i = 0; i < g_reached.size(); ++i)
    if (g_reached[i]) out += (out.size() > 1 ? "," : "") + std::to_string(g_text_low - base + i);
  return out + "]";
}

extern "C" void check_shared_variable(unsigned at, size_t bytes, const char *name) {
  g_variables.push_back({at, bytes, name});
  for (const Block &b : g_blocks)
    if (b.shared) set_range((uintptr_t)b.shared + at, bytes, 1);
}

void check_barrier() {
  if (g_pending_count) resolve_pending();
  report_unset();
  if (!g_awaited.empty()) report_awaited(0, true);
  if (g_count) count_barrier();
  Block &b = g_blocks[slot()];
  b.barrier = ++g_now;
  if (!g_cooperative) g_barrier = b.barrier;
}

void check_grid_barrier() {
  if (g_pending_count) resolve_pending();
  report_unset();
  g_floor = ++g_now;
  for (Block &b : g_blocks) b.barrier = g_now;
}

void check_warp(unsigned mask) {
  if (g_pending_count) resolve_pending();
  if (!g_awaited.empty()) report_awaited(0, true);
  Block &b = g_blocks[slot()];
  WarpOp *ring = &b.ring[sim_here.linear / 32 * 4];
  ring[3] = ring[2];
  ring[2] = ring[1];
  ring[1] = ring[0];
  ring[0] = {++g_now, mask};
  g_warp_op = g_now;
}

void check_fence() {
  if (g_pending_count) resolve_pending();
  g_fenced = true;
  const uint64_t t = ++g_now;
  g_fence_of[me()] = t;
  g_blocks[slot()].fence = t;
}

void check_thread_end() {
  if (g_pending_count) resolve_pending();
  if (!g_awaited.empty()) report_awaited(me(), false);
}

extern "C" {

void sim_guard_local(const void *value, size_t bytes, size_t item, size_t zone, const char *name) {
  const uintptr_t at = (uintptr_t)value;
  if (at - kStacks >= kStacksBytes) return;
  memset(g_zones + (at - zone - kStacks), 1, zone);
  memset(g_zones + (at + bytes - kStacks), 1, zone);
  g_locals[at] = {bytes, item, zone, name};
}
void sim_release_local(const void *value, size_t bytes, size_t zone) {
  const uintptr_t at = (uintptr_t)value;
  if (at - kStacks >= kStacksBytes) return;
  memset(g_zones + (at - zone - kStacks), 0, zone);
  memset(g_zones + (at + bytes - kStacks), 0, zone);
  g_locals.erase(at);
}

void sim_note_access(const void *address, unsigned bytes, int writes, int line) {
  if (writes)
    access<kWrite>((uintptr_t)address, bytes, __builtin_return_address(0), line);
  else
    access<kRead>((uintptr_t)address, bytes, __builtin_return_address(0), line);
}
void sim_note_atomic(const void *address, unsigned bytes, int writes) {
  if (writes)
    atomic_access<kWrite>((uintptr_t)address, bytes, __ATOMIC_RELAXED, __builtin_return_address(0));
  else
    atomic_access<kRead>((uintptr_t)address, bytes, __ATOMIC_RELAXED, __builtin_return_address(0));
}

void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **p, void *) { access<kWrite>((uintptr_t)p, 8, __builtin_return_address(0)); }
void __tsan_vptr_read(void **p) { access<kRead>((uintptr_t)p, 8, __builtin_return_address(0)); }
void __tsan_read_range(void *p, unsigned long n) { access<kRead>((uintptr_t)p, (unsigned)n, __builtin_return_address(0)); }
void __tsan_write_range(void *p, unsigned long n) { access<kWrite>((uintptr_t)p, (unsigned)n, __builtin_return_address(0)); }

#define SIM_ACCESS(N)                                                                                       \
  void __tsan_read##N(void *p) { access<kRead>((uintptr_t)p, N, __builtin_return_address(0)); }             \
  void __tsan_write##N(void *p) { access<kWrite>((uintptr_t)p, N, __builtin_return_address(0)); }           \
  void __tsan_volatile_read##N(void *p) { volatile_read((uintptr_t)p, N, __builtin_return_address(0)); }    \
  void __tsan_volatile_write##N(void *p) { volatile_write((uintptr_t)p, N, __builtin_return_address(0)); }
SIM_ACCESS(1)
SIM_ACCESS(2)
SIM_ACCESS(4)
SIM_ACCESS(8)
SIM_ACCESS(16)
#define SIM_UNALIGNED(N)                                                                                        \
  void __tsan_unaligned_read##N(void *p) { access<kRead>((uintptr_t)p, N, __builtin_return_address(0)); }       \
  void __tsan_unaligned_write##N(void *p) { access<kWrite>((uintptr_t)p, N, __builtin_return_address(0)); }     \
  void __tsan_unaligned_volatile_read##N(void *p) { volatile_read((uintptr_t)p, N, __builtin_return_address(0)); } \
  void __tsan_unaligned_volatile_write##N(void *p) { volatile_write((uintptr_t)p, N, __builtin_return_address(0)); }
SIM_UNALIGNED(2)
SIM_UNALIGNED(4)
SIM_UNALIGNED(8)
SIM_UNALIGNED(16)

#define SIM_ATOMIC_FETCH(BITS, OP)                                                                             \
  uint##BITS##_t __tsan_atomic##BITS##_fetch_##OP(volatile void *p, uint##BITS##_t v, int order) {             \
    atomic_access<kWrite>((uintptr_t)p, BITS / 8, order, __builtin_return_address(0));                           \
    return __atomic_fetch_##OP((volatile uint##BITS##_t *)p, v, __ATOMIC_RELAXED);                             \
  }
#define SIM_ATOMIC(BITS)                                                                                       \
  uint##BITS##_t __tsan_atomic##BITS##_load(const volatile void *p, int order) {                               \
    spin((uintptr_t)p);                                                                                        \
    atomic_access<kRead>((uintptr_t)p, BITS / 8, order, __builtin_return_address(0));                          \
    return *(const volatile uint##BITS##_t *)p;                                                                \
  }                                                                                                            \
  void __tsan_atomic##BITS##_store(volatile void *p, uint##BITS##_t v, int order) {                            \
    atomic_access<kWrite | kStore>((uintptr_t)p, BITS / 8, order, __builtin_return_address(0));                           \
    *(volatile uint##BITS##_t *)p = v;                                                                         \
  }                                                                                                            \
  uint##BITS##_t __tsan_atomic##BITS##_exchange(volatile void *p, uint##BITS##_t v, int order) {               \
    atomic_access<kWrite | kStore>((uintptr_t)p, BITS / 8, order, __builtin_return_address(0));                           \
    return __atomic_exchange_n((volatile uint##BITS##_t *)p, v, __ATOMIC_RELAXED);                             \
  }                                                                                                            \
  SIM_ATOMIC_FETCH(BITS, add)                                                                                  \
  SIM_ATOMIC_FETCH(BITS, sub)                                                                                  \
  SIM_ATOMIC_FETCH(BITS, and)                                                                                  \
  SIM_ATOMIC_FETCH(BITS, or)                                                                                   \
  SIM_ATOMIC_FETCH(BITS, xor)                                                                                  \
  SIM_ATOMIC_FETCH(BITS, nand)                                                                                 \
  int __tsan_atomic##BITS##_compare_exchange_strong(volatile void *p, void *expected, uint##BITS##_t v,        \
                                                    int order, int) {                                          \
    atomic_access<kWrite | kCas>((uintptr_t)p, BITS / 8, order, __builtin_return_address(0));                           \
    return __atomic_compare_exchange_n((volatile uint##BITS##_t *)p, (uint##BITS##_t *)expected, v, false,     \
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED);                                    \
  }                                                                                                            \
  int __tsan_atomic##BITS##_compare_exchange_weak(volatile void *p, void *expected, uint##BITS##_t v,          \
                                                  int order, int) {                                            \
    atomic_access<kWrite>((uintptr_t)p, BITS / 8, order, __builtin_return_address(0));                           \
    return __atomic_compare_exchange_n((volatile uint##BITS##_t *)p, (uint##BITS##_t *)expected, v, false,     \
                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED);                                    \
  }
SIM_ATOMIC(8)
SIM_ATOMIC(16)
SIM_ATOMIC(32)
SIM_ATOMIC(64)
void __tsan_atomic_thread_fence(int) { check_fence(); }
void __tsan_atomic_signal_fence(int) {}

// ---- what -fsanitize=bounds,alignment asks ----
struct SourceLocation {
  const char *file;
  uint32_t line, column;
};
struct TypeDescriptor {
  uint16_t kind, info;
  char name[1];
};
struct OutOfBounds {
  SourceLocation at;
  const TypeDescriptor *array, *index;
};
struct TypeMismatch {
  SourceLocation at;
  const TypeDescriptor *type;
  unsigned char log_alignment, check;
};

static std::string at_json(const SourceLocation &at) {
  report_unset();
  return where_json(nullptr, (int)at.line) + ",\"column\":" + std::to_string(at.column);
}

void __ubsan_handle_out_of_bounds(OutOfBounds *data, unsigned long index) {
  const bool is_signed = data->index->info & 1;
  const unsigned bits = 1u << (data->index->info >> 1);
  const long long value = bits <= 32 && is_signed ? (long long)(int)index : (long long)index;
  report_fault("out_of_bounds", "index " + std::to_string(value) + " is outside an array of type " + data->array->name, at_json(data->at));
}
void __ubsan_handle_out_of_bounds_abort(OutOfBounds *data, unsigned long index) { __ubsan_handle_out_of_bounds(data, index); }

void __ubsan_handle_type_mismatch_v1(TypeMismatch *data, unsigned long address) {
  const unsigned long alignment = 1ul << data->log_alignment;
  std::string buffer;
  const std::string text = place(address, 1, &buffer);
  if (address < 65536)
    report_fault("out_of_bounds", "access through a null pointer (address " + std::to_string(address) + ")", at_json(data->at));
  report_fault("misaligned",
               std::string("access to a ") + data->type->name + " needs an address that is a multiple of " + std::to_string(alignment) +
                   " bytes; this one is " + std::to_string(address % alignment) + " beyond one" + (text.empty() ? "" : ": " + text),
               at_json(data->at) + (buffer.empty() ? "" : ",\"buffer\":" + json_text(buffer)));
}
void __ubsan_handle_type_mismatch_v1_abort(TypeMismatch *data, unsigned long address) { __ubsan_handle_type_mismatch_v1(data, address); }
}
