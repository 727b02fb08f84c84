// Counts of a kernel's memory traffic in check mode, on request: bytes exactly, what a warp's access touches by sample.
//
// Threads run one after another, so the lanes of one warp access are found again by its place in the program and
// its turn there. The first blocks and turns are sampled; the rest is taken to be alike.
#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "runtime.h"

bool g_count = false;

namespace {

constexpr unsigned kTurns = 32, kBlocks = 8;  // sampled for each place
constexpr uintptr_t kSector = 32;

struct Access {
  unsigned lanes = 0;
  uintptr_t at[32];
  unsigned bytes[32];
};
struct Place {
  bool writes = false, shared = false;
  uint64_t accesses = 0, sampled = 0, parts = 0;  // of threads; of those in the sample; sectors or extra passes
  unsigned short turn[kMaxThreads] = {};
  std::unordered_map<unsigned, Access> open;  // by warp and turn
};
std::unordered_map<const void *, std::unique_ptr<Place>> g_places;
uint64_t g_bytes[2] = {0, 0}, g_shared_bytes[2] = {0, 0}, g_atomic_count = 0, g_barrier_count = 0, g_thread_count = 0;
unsigned g_blocks_begun = 0;
bool g_taking_turns = false;  // a cooperative launch: its blocks take turns, the first one is the sample

// The access before this one: a vector may come in pieces, which belong together.
struct Last {
  unsigned thread = ~0u;
  uintptr_t start = 0, end = 0;
  Place *place = nullptr;
  unsigned *bytes = nullptr;
  bool writes = false;
} g_last;

unsigned sectors(const Access &a) {
  uintptr_t seen[32 * 16];
  unsigned n = 0;
  for (unsigned l = 0; l < 32; ++l) {
    if (!(a.lanes >> l & 1)) continue;
    for (uintptr_t s = a.at[l] / kSector; s <= (a.at[l] + a.bytes[l] - 1) / kSector && n < 512; ++s) seen[n++] = s;
  }
  std::sort(seen, seen + n);
  return (unsigned)(std::unique(seen, seen + n) - seen);
}

// Passes beyond those that the width needs: 32 banks of 4 bytes; one word read by many lanes is one access.
unsigned conflicts(const Access &a) {
  uintptr_t words[32 * 4];
  unsigned n = 0, widest = 4, in_bank[32] = {}, most = 0;
  for (unsigned l = 0; l < 32; ++l) {
    if (!(a.lanes >> l & 1)) continue;
    widest = std::max(widest, std::min(16u, a.bytes[l]));
    for (uintptr_t w = a.at[l] / 4; w <= (a.at[l] + std::min(16u, a.bytes[l]) - 1) / 4 && n < 128; ++w) words[n++] = w;
  }
  std::sort(words, words + n);
  n = (unsigned)(std::unique(words, words + n) - words);
  for (unsigned i = 0; i < n; ++i) most = std::max(most, ++in_bank[words[i] % 32]);
  const unsigned needed = std::max(1u, std::min(widest / 4, (n + 31) / 32));
  return most > needed ? most - needed : 0;
}

void close_sample() {
  for (auto &entry : g_places) {
    Place &p = *entry.second;
    for (const auto &open : p.open) {
      p.parts += p.shared ? conflicts(open.second) : sectors(open.second);
      p.sampled += (unsigned)__builtin_popcount(open.second.lanes);
    }
    p.open.clear();
    memset(p.turn, 0, sizeof p.turn);
  }
  g_last = Last{};
}

}  // namespace

void count_access(uintptr_t a, unsigned n, bool writes, bool atomic, bool shared, const void *pc) {
  if (atomic) {
    ++g_atomic_count;
    g_last.thread = ~0u;
    return;
  }
  (shared ? g_shared_bytes : g_bytes)[writes] += n;
  const unsigned thread = sim_here.linear;
  if (g_last.thread == thread && g_last.writes == writes && a == g_last.end && a / 16 == g_last.start / 16) {
    const auto known = g_places.find(pc);
    if (known == g_places.end() || known->second.get() != g_last.place) {
      g_last.end += n;
      if (g_last.bytes) *g_last.bytes += n;
      return;
    }
  }
  std::unique_ptr<Place> &slot = g_places[pc];
  if (!slot) slot = std::make_unique<Place>();
  Place &p = *slot;
  p.writes = writes;
  p.shared = shared;
  ++p.accesses;
  g_last = Last{thread, a, a + n, &p, nullptr, writes};
  const uint3 b = sim_here.block;
  if (g_taking_turns ? (b.x | b.y | b.z) != 0 : g_blocks_begun > kBlocks) return;
  if (p.turn[thread] >= kTurns) return;
  Access &group = p.open[thread / 32 * kTurns + p.turn[thread]++];
  group.lanes |= 1u << (thread & 31);
  group.at[thread & 31] = a;
  group.bytes[thread & 31] = n;
  g_last.bytes = &group.bytes[thread & 31];
}

void count_launch(bool cooperative) {
  close_sample();
  g_taking_turns = cooperative;
  g_blocks_begun = 0;
}
void count_block(unsigned threads) {
  close_sample();
  ++g_blocks_begun;
  g_thread_count += threads;
}
void count_barrier() { ++g_barrier_count; }

std::string count_json() {
  close_sample();
  double parts[2] = {0, 0}, passes = 0;
  for (const auto &entry : g_places) {
    const Place &p = *entry.second;
    if (!p.sampled) continue;
    const double whole = (double)p.parts * (double)p.accesses / (double)p.sampled;
    (p.shared ? passes : parts[p.writes]) += whole;
  }
  const std::pair<const char *, double> facts[] = {
      {"global_load_bytes", (double)g_bytes[0]}, {"global_store_bytes", (double)g_bytes[1]},
      {"global_load_sectors", parts[0]}, {"global_store_sectors", parts[1]},
      {"shared_load_bytes", (double)g_shared_bytes[0]}, {"shared_store_bytes", (double)g_shared_bytes[1]},
      {"shared_bank_conflicts", passes}, {"barriers", (double)g_barrier_count},
      {"atomics", (double)g_atomic_count}, {"threads", (double)g_thread_count}};
  std::string out = "{";
  for (const auto &f : facts) out += (out.size() > 1 ? "," : "") + json_text(f.first) + ":" + std::to_string(f.second);
  return out + "}";
}
