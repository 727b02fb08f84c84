// The runtime of the CPU executor: fibers, barriers, warp rendezvous, reports.
#pragma once
#include <pthread.h>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "sim_core.h"

constexpr unsigned kMaxThreads = 1024;
constexpr size_t kSharedBytes = 1u << 20;    // static shared memory of all kernels of one program
constexpr size_t kDynamicBytes = 256u << 10;
constexpr size_t kMaxResident = 16384;       // threads of a cooperative launch
constexpr unsigned char kGarbage = 0xCD;     // shared memory starts as garbage, as on a GPU

struct Buffer {
  std::string name, dtype;
  size_t bytes = 0, item = 1;
  char role = 's';  // i in, o out, b inout, s scratch
  char *data = nullptr;
};

struct Launch {
  std::string kernel;
  dim3 grid, block;
  unsigned shared = 0;
  bool cooperative = false;
  std::vector<std::vector<unsigned char>> arguments;  // raw bytes of each
};

extern std::vector<Buffer> g_buffers;
extern int g_launch_index;
extern std::string g_kernel_name;
extern unsigned g_poison;
extern int g_workers;
extern uintptr_t g_text_low, g_text_high;  // of the kernel's own code
// In which order blocks and threads start: 0 forward, 1 backward, 2 mixed by the poison's seed. A right kernel does
// not depend on it; one that waits for an earlier block is started again forward, as GPUs do in practice.
extern int g_order;
extern bool g_shared_is_exact;  // shared variables have the sizes that they have on a GPU

unsigned char poison_byte(size_t position);
void run_launch(const Launch &launch, const sim_kernel &kernel);
void runtime_start(int workers);

// Ends the process with a report on the private channel; `extra` is JSON members, each led by a comma.
[[noreturn]] void report_fault(const char *fault, const std::string &message, const std::string &extra = "");
[[noreturn]] void report_not_run(const char *reason, const std::string &message, const std::string &extra = "");
void add_warning(const std::string &text);
std::string json_text(const std::string &s);
std::string where_json(const void *pc = nullptr, int line = 0);
std::string thread_text();
// "one float past the end of `y`": an address beside something of `bytes` bytes that starts at `low`.
std::string beside(uintptr_t address, unsigned access_bytes, uintptr_t low, size_t bytes, size_t item, const std::string &type,
                   const std::string &name);
std::string type_name(const std::string &dtype);
// The same for the buffer that an address lies nearest to; empty when it is near none.
std::string describe_address(const void *address, size_t bytes, std::string *buffer);

#ifdef SIM_CHECK
void check_setup();
void check_launch(bool cooperative);
void check_block_start(size_t number, char *shared, size_t shared_bytes, char *dynamic, size_t dynamic_bytes);
void check_barrier();
void check_grid_barrier();
void check_warp(unsigned mask);
void check_fence();
void check_thread_end();
void check_copy_begins(const void *to, unsigned bytes, const void *pc);
void check_add_range(char *address, size_t bytes, bool initialised);
bool check_written(const char *address, size_t bytes);
char *check_allocate(size_t bytes);
void check_globals(const sim_global *first, const sim_global *end);
// Basic blocks of the kernel that ran: where each told of itself, as offsets from the library's base.
std::string reached_json(uintptr_t base);
// Counting of memory traffic, when the job asks for it.
extern bool g_count;
void count_access(uintptr_t address, unsigned bytes, bool writes, bool atomic, bool shared, const void *pc);
void count_launch(bool cooperative);
void count_block(unsigned threads);
void count_barrier();
std::string count_json();
// Where the next stack goes: stacks lie together, so that a thread's locals are told from device memory at once.
void *check_stack(size_t bytes);
#endif
