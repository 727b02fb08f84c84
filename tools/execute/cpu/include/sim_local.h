// Check mode: a local variable between two zones of bytes that nothing may touch; the rewriter declares them so.
#pragma once
#ifdef SIM_CHECK
#include <cstddef>
#include <type_traits>

extern "C" {
void sim_guard_local(const void* value, std::size_t bytes, std::size_t item, std::size_t zone, const char* name);
void sim_release_local(const void* value, std::size_t bytes, std::size_t zone);
}

template <class T> struct sim_guarded {
  static constexpr std::size_t zone = sizeof(T) <= 64 ? 64 : 256;
  unsigned char before[zone];
  T value;
  unsigned char after[zone];
};

struct sim_watch {
  const void* value;
  std::size_t bytes, zone;
  template <class T> sim_watch(sim_guarded<T>& g, const char* name) : value((const void*)&g.value), bytes(sizeof(T)), zone(g.zone) {
    sim_guard_local(value, bytes, sizeof(std::remove_all_extents_t<T>), zone, name);
  }
  ~sim_watch() { sim_release_local(value, bytes, zone); }
  sim_watch(const sim_watch&) = delete;
};
#endif
