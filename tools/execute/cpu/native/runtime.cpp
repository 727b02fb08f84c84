// Blocks of fibers. A worker fiber runs thread after thread; only a thread that waits costs a switch.
#include "runtime.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

__thread sim_context sim_here __attribute__((tls_model("initial-exec")));

std::vector<Buffer> g_buffers;
int g_launch_index = 0;
std::string g_kernel_name;
unsigned g_poison = 0;
int g_workers = 1;
uintptr_t g_text_low = 0, g_text_high = 0;
int g_order = 0;
bool g_shared_is_exact = true;

#if !defined(__x86_64__)
#error "cuda_harness: the CPU executor runs on x86-64 hosts"
#endif

// Saves the callee's registers on the current stack and goes on with another one.
__asm__(R"(
.text
.globl sim_switch
.type sim_switch,@function
sim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size sim_switch,.-sim_switch
)");
extern "C" void sim_switch(void **save, void *next);

namespace {

constexpr size_t kStackBytes = 256u << 10;

enum State : unsigned char { kUnstarted, kReady, kAtBarrier, kAtWarp, kAtGrid, kAtNamed, kAtActive, kDone };

struct Fiber {
  void *sp = nullptr;
  char *stack = nullptr;
};

struct BlockState;

struct Copy {
  sim_copy what;
  unsigned batch;
};

struct Thread {
  BlockState *block;
  Fiber *fiber;
  uint3 index;
  unsigned linear;
  State state;
  bool early;          // left by an explicit return
  bool contended;      // has let others go between a read and the change that follows it
  unsigned failures;   // of its compare-and-swaps
  int line;            // where it waits
  unsigned barriers;   // block barriers it has passed
  int source;          // lane it reads in a warp exchange
  uint64_t value;
  uint64_t *table;
  unsigned mask;
  int named;
  std::vector<Copy> copies;  // in the background, the oldest first; those before `landed` are done
  size_t landed;
  unsigned batch;
};

struct Warp {
  unsigned exists, done, waiting;
  unsigned at_active;  // lanes that ask who is with them
  unsigned yields;     // of other lanes since
};

struct BlockState {
  uint3 index;
  unsigned threads, next, done, waiting, at_grid;
  int count_result, and_result, or_result;       // of the barrier that completed last
  int count_now, and_now, or_now;                // of the one that gathers
  char *shared, *dynamic;
  std::vector<Thread> thread;
  std::vector<Warp> warp;
};

struct Worker {
  std::vector<BlockState *> resident;
  size_t first_unstarted = 0;
  std::vector<Thread *> ready;
  size_t ready_head = 0;
  std::vector<Fiber *> idle;
  Fiber *current = nullptr;
  Thread *running = nullptr;
  void *main_sp = nullptr;
  size_t live = 0;   // threads of the resident blocks that have not ended
  size_t done_at_grid = 0;
  std::vector<BlockState> blocks;
  unsigned made = 0;
  timer_t timer;
  volatile uint64_t switches = 0;
  uint64_t seen_switches = 0;
  volatile uint64_t finished = 0;  // threads
  uint64_t seen_finished = 0;
  unsigned stuck = 0;  // ticks without one
  volatile bool active = false;
};

__thread Worker *t_worker = nullptr;
const Launch *g_launch = nullptr;
const sim_kernel *g_kernel = nullptr;
std::vector<void *> g_arguments;
std::atomic<size_t> g_next_block{0};
size_t g_block_count = 0;
bool g_together = false;  // all blocks of the launch are resident
std::vector<unsigned> g_thread_order;  // of a block
std::atomic<unsigned> g_shared_reserved{0};
std::map<std::string, size_t> g_static_shared;  // bytes by kernel
std::mutex g_mutex;

void enter(Thread *t) {
  Worker &w = *t_worker;
  w.running = t;
  sim_context &c = sim_here;
  c.thread = t->index;
  c.block = t->block->index;
  c.shared = t->block->shared;
  c.dynamic = t->block->dynamic;
  c.linear = t->linear;
  c.lane = t->linear & 31u;
  c.warp = t->linear >> 5;
}

void worker_main();

Fiber *make_fiber(Worker &w) {
  Fiber *f = new Fiber;
#ifdef SIM_CHECK
  void *place = check_stack(kStackBytes + 8192);
#else
  void *place = nullptr;
#endif
  void *memory = mmap(place, kStackBytes + 8192, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) report_not_run("resources", "no memory for the stack of a thread");
  mprotect(memory, 4096, PROT_NONE);
  f->stack = (char *)memory + 4096;
  // Tops at equal distances would all fall into the same cache sets.
  uintptr_t top = ((uintptr_t)f->stack + kStackBytes - (w.made++ & 127) * 576) & ~(uintptr_t)15;
  void **sp = (void **)top;
  *--sp = nullptr;                // the entry sees rsp % 16 == 8, as after a call
  *--sp = (void *)worker_main;
  for (int i = 0; i < 6; ++i) *--sp = nullptr;
  f->sp = sp;
  return f;
}

void to_fiber(Fiber *next) {
  Worker &w = *t_worker;
  Fiber *me = w.current;
  if (me == next) return;
  w.current = next;
  w.switches = w.switches + 1;
  sim_switch(&me->sp, next->sp);
}

void make_ready(Thread *t) {
  Worker &w = *t_worker;
  t->state = kReady;
  if (w.ready_head > 65536) {  // threads that spin never let the queue run empty
    w.ready.erase(w.ready.begin(), w.ready.begin() + (ptrdiff_t)w.ready_head);
    w.ready_head = 0;
  }
  w.ready.push_back(t);
}

std::string waiting_text(int line, const char *what) { return std::string(what) + " (line " + std::to_string(line) + ")"; }

[[noreturn]] void deadlock() {
  Worker &w = *t_worker;
  size_t barrier = 0, warp = 0, grid = 0, done = 0;
  int barrier_line = 0, warp_line = 0, grid_line = 0;
  Thread *shown = nullptr;
  for (BlockState *b : w.resident)
    for (unsigned i = 0; i < b->threads; ++i) {
      Thread &t = b->thread[i];
      if (t.state == kAtBarrier || t.state == kAtNamed) ++barrier, barrier_line = t.line, shown = shown ? shown : &t;
      if (t.state == kAtWarp) ++warp, warp_line = t.line, shown = shown ? shown : &t;
      if (t.state == kAtGrid) ++grid, grid_line = t.line, shown = shown ? shown : &t;
      if (t.state == kDone) ++done;
    }
  std::string text;
  auto add = [&](size_t n, int line, const char *what) {
    if (n) text += (text.empty() ? "" : ", ") + std::to_string(n) + " threads wait at " + waiting_text(line, what);
  };
  add(barrier, barrier_line, "a block barrier");
  add(warp, warp_line, "a warp operation whose mask names lanes that never come");
  add(grid, grid_line, "grid.sync()");
  if (done) text += ", " + std::to_string(done) + " have ended";
  if (shown) enter(shown);
  const bool divergent = warp && !barrier && !grid;
  report_fault(divergent ? "barrier_divergence" : "deadlock", text, where_json(nullptr, shown ? shown->line : 0));
}

// Next thread to run: one that has not started (they are what the waiting ones wait for), else a ready one.
bool start_or_resume() {
  Worker &w = *t_worker;
  while (w.first_unstarted < w.resident.size()) {
    BlockState *b = w.resident[w.first_unstarted];
    if (b->next < b->threads) {
      Fiber *f = w.idle.empty() ? make_fiber(w) : w.idle.back();
      if (!w.idle.empty()) w.idle.pop_back();
      to_fiber(f);
      return true;
    }
    ++w.first_unstarted;
  }
  if (w.ready_head < w.ready.size()) {
    Thread *t = w.ready[w.ready_head++];
    if (w.ready_head == w.ready.size()) w.ready.clear(), w.ready_head = 0;
    enter(t);
    to_fiber(t->fiber);
    return true;
  }
  return false;
}

// Lanes that ask who is with them are answered once no other lane of the warp can still come: as on a GPU that
// lets a branch converge. Those at one line form one group.
void settle_active(BlockState &b, unsigned warp, bool forced) {
  Warp &w = b.warp[warp];
  Thread *base = &b.thread[warp * 32];
  for (unsigned m = w.exists & ~w.done & ~w.at_active; m && !forced; m &= m - 1) {
    const State s = base[__builtin_ctz(m)].state;
    if (s != kAtBarrier && s != kAtWarp && s != kAtGrid && s != kAtNamed) return;
  }
  while (w.at_active) {
    unsigned group = 0;
    const int line = base[__builtin_ctz(w.at_active)].line;
    for (unsigned m = w.at_active; m; m &= m - 1)
      if (base[__builtin_ctz(m)].line == line) group |= m & -m;
    w.at_active &= ~group;
    for (unsigned m = group; m; m &= m - 1) {
      Thread &t = base[__builtin_ctz(m)];
      t.value = group;
      make_ready(&t);
    }
  }
  w.yields = 0;
}

// Give the processor away until somebody makes this thread ready again.
void suspend(Thread *t) {
  if (t->block->warp[t->linear >> 5].at_active) settle_active(*t->block, t->linear >> 5, false);
  t->fiber = t_worker->current;
  if (!start_or_resume()) deadlock();
  enter(t);
}

// The k-th of n things to start, or to go on after a barrier.
size_t in_order(size_t k, size_t n) {
  if (g_order == 1) return n - 1 - k;
  if (g_order == 0 || n < 3 || n >> 40) return k;
  size_t step = 2654435761u % 65521u + g_poison % 97;  // no common factor with n: every one has its turn
  while (std::__gcd(step, n) != 1) ++step;
  return (k * (step % n) + g_poison % n) % n;
}

void complete_barrier(BlockState &b) {
  const int line = [&] {
    for (unsigned i = 0; i < b.threads; ++i)
      if (b.thread[i].state == kAtBarrier) return b.thread[i].line;
    return 0;
  }();
#ifdef SIM_CHECK
  unsigned passed = 0;
  for (unsigned i = 0; i < b.threads; ++i) {
    Thread &t = b.thread[i];
    if (t.state == kAtBarrier) {
      passed = std::max(passed, t.barriers);
      if (t.line != line) {
        enter(&t);
        report_fault("barrier_divergence",
                     "threads of one block wait at different barriers: line " + std::to_string(line) + " and line " +
                         std::to_string(t.line),
                     where_json(nullptr, t.line));
      }
    }
  }
  unsigned missing = 0;
  bool early = false;
  Thread *shown = nullptr;
  for (unsigned i = 0; i < b.threads; ++i) {
    Thread &t = b.thread[i];
    if (t.state == kDone && t.barriers <= passed) {
      if (t.early)
        early = true;
      else
        ++missing, shown = shown ? shown : &t;
    }
  }
  if (missing) {
    const unsigned waits = b.waiting;
    enter(shown);
    report_fault("barrier_divergence",
                 std::to_string(waits) + " of " + std::to_string(b.threads) + " threads wait at __syncthreads() (line " +
                     std::to_string(line) + ") that " + std::to_string(missing) + " threads of the block never reach",
                 where_json(nullptr, line));
  }
  if (early)
    add_warning("line " + std::to_string(line) +
                ": some threads returned before this __syncthreads(); that works only as long as nobody needs them");
#endif
  b.count_result = b.count_now;
  b.and_result = b.and_now;
  b.or_result = b.or_now;
  b.count_now = b.or_now = 0;
  b.and_now = 1;
  b.waiting = 0;
#ifdef SIM_CHECK
  check_barrier();
#endif
  // They go on in the order in which they started: an atomic of each then says what it does not on a GPU.
  for (unsigned k = 0; k < b.threads; ++k) {
    Thread &t = b.thread[in_order(k, b.threads)];
    if (t.state == kAtBarrier) {
      ++t.barriers;
      make_ready(&t);
    }
  }
  (void)line;
}

// All lanes of the waiting ones' mask that exist and have not ended are here: hand out the values.
bool try_complete_warp(BlockState &b, unsigned warp, unsigned mask) {
  Warp &w = b.warp[warp];
  const unsigned needed = mask & w.exists & ~w.done;
  unsigned same = 0;
  Thread *base = &b.thread[warp * 32];
  for (unsigned m = w.waiting & mask; m; m &= m - 1) {
    const int l = __builtin_ctz(m);
    if (base[l].mask == mask) same |= 1u << l;
  }
  if ((same & needed) != needed || needed == 0) return false;
#ifdef SIM_CHECK
  for (unsigned m = needed; m; m &= m - 1) {
    Thread &t = base[__builtin_ctz(m)];
    // A source that the mask does not name gives an undefined value; one that it names must be there.
    if (t.source >= 0 && t.source < 32 && (mask >> t.source & 1) && !(needed >> t.source & 1)) {
      enter(&t);
      const bool exists = w.exists >> t.source & 1;
      report_fault(exists ? "barrier_divergence" : "uninitialized_read",
                   "line " + std::to_string(t.line) + ": a shuffle reads lane " + std::to_string(t.source) + " of its mask, which " +
                       (exists ? "has ended" : "does not exist in this block"),
                   where_json(nullptr, t.line));
    }
  }
  check_warp(needed);
#endif
  uint64_t values[32];
  constexpr uint64_t undefined = 0xcdcdcdcdcdcdcdcdull;
  for (int l = 0; l < 32; ++l) values[l] = (needed >> l & 1) ? base[l].value : 0;
  for (unsigned m = needed; m; m &= m - 1) {
    Thread &t = base[__builtin_ctz(m)];
    if (t.table)
      memcpy(t.table, values, sizeof(values));
    else if (t.source >= 0)
      t.value = t.source < 32 && (needed >> t.source & 1) ? values[t.source] : undefined;
    if (t.state == kAtWarp) make_ready(&t);
  }
  w.waiting &= ~needed;
  return true;
}

void warp_meet(unsigned mask, uint64_t value, int source, uint64_t *table, int line) {
  Thread *t = t_worker->running;
  BlockState &b = *t->block;
  const unsigned lane = t->linear & 31u, warp = t->linear >> 5;
  Warp &w = b.warp[warp];
  t->line = line;
  if (!(mask >> lane & 1))
    report_fault("barrier_divergence", "line " + std::to_string(line) + ": a warp operation is called by lane " +
                 std::to_string(lane) + ", which its mask does not name", where_json(nullptr, line));
  t->mask = mask;
  t->value = value;
  t->source = source;
  t->table = table;
  w.waiting |= 1u << lane;
  t->state = kReady;  // running: completed at once it must not be queued
  if (try_complete_warp(b, warp, mask)) return;
  t->state = kAtWarp;
  suspend(t);
}

void complete_grid(Worker &w) {
#ifdef SIM_CHECK
  check_grid_barrier();
#endif
  for (BlockState *b : w.resident)
    for (unsigned i = 0; i < b->threads; ++i)
      if (b->thread[i].state == kAtGrid) make_ready(&b->thread[i]);
  w.done_at_grid = 0;
}

void finish(Thread *t) {
  Worker &w = *t_worker;
  BlockState &b = *t->block;
#ifdef SIM_CHECK
  check_thread_end();
#endif
  t->state = kDone;
  w.finished = w.finished + 1;
  ++b.done;
  --w.live;
  if (b.waiting && b.waiting + b.done == b.threads) complete_barrier(b);
  const unsigned warp = t->linear >> 5, lane = t->linear & 31u;
  Warp &v = b.warp[warp];
  v.done |= 1u << lane;
  if (v.at_active) settle_active(b, warp, false);
  while (v.waiting) {
    bool any = false;
    for (unsigned m = v.waiting; m; m &= m - 1) {
      Thread &o = b.thread[warp * 32 + __builtin_ctz(m)];
      if (try_complete_warp(b, warp, o.mask)) {
        any = true;
        break;
      }
    }
    if (!any) break;
  }
  if (w.done_at_grid && w.done_at_grid == w.live) complete_grid(w);
}

void start_block(BlockState &b, size_t number) {
  const dim3 g = g_launch->grid, d = g_launch->block;
  b.index = {(unsigned)(number % g.x), (unsigned)(number / g.x % g.y), (unsigned)(number / g.x / g.y)};
  b.next = b.done = b.waiting = b.at_grid = 0;
  b.count_now = b.or_now = 0;
  b.and_now = 1;
  const unsigned n = d.x * d.y * d.z;
  if (b.threads != n || b.thread.empty()) {
    b.threads = n;
    b.thread.assign(n, Thread{});
    b.warp.assign((n + 31) / 32, Warp{});
    unsigned i = 0;
    for (unsigned z = 0; z < d.z; ++z)
      for (unsigned y = 0; y < d.y; ++y)
        for (unsigned x = 0; x < d.x; ++x, ++i) {
          b.thread[i].block = &b;
          b.thread[i].index = {x, y, z};
          b.thread[i].linear = i;
        }
    for (unsigned k = 0; k < b.warp.size(); ++k) {
      const unsigned lanes = std::min(32u, n - k * 32);
      b.warp[k].exists = lanes == 32 ? ~0u : (1u << lanes) - 1;
    }
  }
  for (Warp &v : b.warp) v.done = v.waiting = v.at_active = v.yields = 0;
  const unsigned reserved = g_shared_reserved.load(std::memory_order_relaxed);
  if (reserved) memset(b.shared, kGarbage, reserved);
  if (g_launch->shared) memset(b.dynamic, kGarbage, g_launch->shared);
#ifdef SIM_CHECK
  check_block_start(number, b.shared, kSharedBytes, b.dynamic, g_launch->shared);
#endif
}

bool next_block(Worker &w) {
  if (g_together) return false;
  const size_t number = g_next_block.fetch_add(1, std::memory_order_relaxed);
  if (number >= g_block_count) return false;
  start_block(*w.resident[0], in_order(number, g_block_count));
  w.live = w.resident[0]->threads;
  w.first_unstarted = 0;
  return true;
}

void worker_main() {
  for (;;) {
    Worker &w = *t_worker;
    while (w.first_unstarted < w.resident.size()) {
      BlockState &b = *w.resident[w.first_unstarted];
      if (b.next >= b.threads) {
        ++w.first_unstarted;
        continue;
      }
      Thread &t = b.thread[g_thread_order[b.next++]];
      t.state = kReady;
      t.early = t.contended = false;
      t.failures = 0;
      t.copies.clear();
      t.landed = t.batch = 0;
      t.barriers = 0;
      enter(&t);
      g_kernel->call(g_arguments.data());
      finish(w.running);
    }
    if (w.live == 0 && w.ready_head == w.ready.size()) {
      if (next_block(w)) continue;
      Fiber *me = w.current;
      w.idle.push_back(me);
      w.current = nullptr;
      sim_switch(&me->sp, w.main_sp);
      continue;
    }
    Fiber *me = w.current;
    w.idle.push_back(me);
    if (w.ready_head < w.ready.size()) {
      Thread *t = w.ready[w.ready_head++];
      if (w.ready_head == w.ready.size()) w.ready.clear(), w.ready_head = 0;
      enter(t);
      to_fiber(t->fiber);
    } else {
      deadlock();
    }
  }
}

void run_worker(Worker &w) {
  t_worker = &w;
  sim_here.block_dim = g_launch->block;
  sim_here.grid_dim = g_launch->grid;
  sim_here.dynamic_bytes = g_launch->shared;
  w.ready.clear();
  w.ready_head = 0;
  w.done_at_grid = 0;
  w.resident.clear();
  if (g_together) {
    if (w.blocks.size() < g_block_count) {
      for (BlockState &b : w.blocks) munmap(b.shared, kSharedBytes + kDynamicBytes);
      w.blocks.assign(g_block_count, BlockState{});
    }
  } else if (w.blocks.empty()) {
    w.blocks.resize(1);
  }
  const size_t count = g_together ? g_block_count : 1;
  for (size_t i = 0; i < count; ++i) {
    BlockState &b = w.blocks[i];
    if (!b.shared) {
#ifdef SIM_CHECK
      b.shared = check_allocate(kSharedBytes + kDynamicBytes);
#else
      b.shared = (char *)mmap(nullptr, kSharedBytes + kDynamicBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (b.shared == MAP_FAILED) report_not_run("resources", "no memory for shared memory");
#endif
      b.dynamic = b.shared + kSharedBytes;
    }
    b.thread.clear();
    w.resident.push_back(g_together ? &w.blocks[in_order(i, count)] : &b);
  }
  if (g_together) {
    for (size_t i = 0; i < count; ++i) start_block(w.blocks[i], i);
    w.live = count * w.blocks[0].threads;
    w.first_unstarted = 0;
  } else if (!next_block(w)) {
    return;
  }
  Fiber *f = w.idle.empty() ? make_fiber(w) : w.idle.back();
  if (!w.idle.empty()) w.idle.pop_back();
  w.current = f;
  w.stuck = 0;
  w.active = true;
  sim_switch(&w.main_sp, f->sp);
  w.active = false;
}

// ---- helper threads: made before the sandbox closes, woken for each launch ----
struct Pool {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t wake = PTHREAD_COND_INITIALIZER, idle = PTHREAD_COND_INITIALIZER;
  uint64_t round = 0;
  int busy = 0, started = 0;
} g_pool;
std::vector<Worker *> g_worker_list;

// A thread that spins for a whole tick of processor time gives its turn to the others; only amid the kernel's own
// code, where no list of ours is half changed.
void on_tick(int, siginfo_t *, void *context) {
  Worker *w = t_worker;
  const uintptr_t pc = (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
  if (pc < g_text_low || pc >= g_text_high) return;
  if (w && g_order && w->active) {
    constexpr unsigned patience = 50;  // a second
    w->stuck = w->finished == w->seen_finished ? w->stuck + 1 : 0;
    w->seen_finished = w->finished;
    if (w->stuck > patience) report_not_run("again", "no thread ended for a second");
  }
  if (!w || !w->running || !w->current || w->running->state != kReady) return;
  if (w->switches == w->seen_switches) {
    sim_yield();
    w = t_worker;
  }
  w->seen_switches = w->switches;
}

void start_tick(Worker &w) {
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGALRM;
  event._sigev_un._tid = gettid();
  if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &w.timer) == 0) {
    itimerspec every{{0, 20000000}, {0, 20000000}};
    timer_settime(w.timer, 0, &every, nullptr);
  }
}

void alternate_stack() {
  const size_t size = 64u << 10;
  stack_t s{};
  s.ss_sp = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  s.ss_size = size;
  sigaltstack(&s, nullptr);
}

void *helper(void *argument) {
  Worker *w = (Worker *)argument;
  alternate_stack();
  start_tick(*w);
  pthread_mutex_lock(&g_pool.mutex);
  ++g_pool.started;
  pthread_cond_signal(&g_pool.idle);
  pthread_mutex_unlock(&g_pool.mutex);
  uint64_t seen = 0;
  for (;;) {
    pthread_mutex_lock(&g_pool.mutex);
    while (g_pool.round == seen) pthread_cond_wait(&g_pool.wake, &g_pool.mutex);
    seen = g_pool.round;
    pthread_mutex_unlock(&g_pool.mutex);
    run_worker(*w);
    pthread_mutex_lock(&g_pool.mutex);
    if (--g_pool.busy == 0) pthread_cond_signal(&g_pool.idle);
    pthread_mutex_unlock(&g_pool.mutex);
  }
  return nullptr;
}

}  // namespace

void runtime_start(int workers) {
  g_workers = workers;
  struct sigaction action{};
  action.sa_sigaction = on_tick;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_NODEFER;  // on the fiber's own stack: the handler may switch
  sigaction(SIGALRM, &action, nullptr);
  for (int i = 0; i < workers; ++i) g_worker_list.push_back(new Worker);
  alternate_stack();
  start_tick(*g_worker_list[0]);
  for (int i = 1; i < workers; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, helper, g_worker_list[i]) != 0) {
      g_worker_list.resize(i);
      g_workers = i;
      break;
    }
  }
  // A helper that is still starting up would make calls that the sandbox refuses.
  pthread_mutex_lock(&g_pool.mutex);
  while (g_pool.started < g_workers - 1) pthread_cond_wait(&g_pool.idle, &g_pool.mutex);
  pthread_mutex_unlock(&g_pool.mutex);
}

// What a GPU of the data centre has: static shared memory is bound at compile time, all of it at launch.
void require_shared_fits(size_t fixed) {
  constexpr size_t most_static = 48u << 10, most = 227u << 10;
  if (!g_shared_is_exact) return;
  const std::string text = g_kernel_name + ": " + std::to_string(fixed) + " bytes of static shared memory";
  const std::string where = ",\"kernel\":" + json_text(g_kernel_name) + ",\"launch\":" + std::to_string(g_launch_index);
  if (fixed > most_static)
    report_fault("compile", text + ", a kernel may have " + std::to_string(most_static) + "; more must be dynamic (extern __shared__)", where);
  if (fixed + g_launch->shared > most)
    report_fault("launch_config", text + " and " + std::to_string(g_launch->shared) + " of dynamic, a block may have " + std::to_string(most) + " together",
                 where);
}

void run_launch(const Launch &launch, const sim_kernel &kernel) {
  g_launch = &launch;
  g_kernel = &kernel;
  g_arguments.clear();
  for (const auto &a : launch.arguments) g_arguments.push_back((void *)a.data());
  g_block_count = (size_t)launch.grid.x * launch.grid.y * launch.grid.z;
  const size_t threads = (size_t)launch.block.x * launch.block.y * launch.block.z;
  if (launch.cooperative && g_block_count * threads > kMaxResident)
    report_not_run("unsupported", "a cooperative launch of " + std::to_string(g_block_count * threads) +
                                      " threads; this executor keeps at most " + std::to_string(kMaxResident));
  const auto known = g_static_shared.find(launch.kernel);
  if (known != g_static_shared.end()) require_shared_fits(known->second);
  g_next_block = 0;
  if (g_thread_order.size() != threads) {
    g_thread_order.resize(threads);
    for (size_t i = 0; i < threads; ++i) g_thread_order[i] = (unsigned)in_order(i, threads);
  }
  g_together = launch.cooperative;
#ifdef SIM_CHECK
  // In one of the orders few blocks run together: one then changes a word between another's reading and changing it.
  g_together |= g_order == 2 && !g_count && g_block_count > 1 && g_block_count <= 64 && g_block_count * threads <= 4096;
  check_launch(g_together);
#endif
  const int helpers = g_together || g_block_count * threads < 4096 || g_block_count < 2 ? 0 : g_workers - 1;
  if (helpers) {
    pthread_mutex_lock(&g_pool.mutex);
    g_pool.busy = helpers;
    ++g_pool.round;
    pthread_cond_broadcast(&g_pool.wake);
    pthread_mutex_unlock(&g_pool.mutex);
  }
  run_worker(*g_worker_list[0]);
  if (helpers) {
    pthread_mutex_lock(&g_pool.mutex);
    while (g_pool.busy) pthread_cond_wait(&g_pool.idle, &g_pool.mutex);
    pthread_mutex_unlock(&g_pool.mutex);
  }
  t_worker = nullptr;
}

extern "C" {

unsigned sim_shared_reserve(size_t bytes, size_t align, const char *name) {
  std::lock_guard<std::mutex> hold(g_mutex);
  // A gap between variables, so that a step over the end of one does not land in the next.
  unsigned at = g_shared_reserved.load();
  const size_t a = std::max<size_t>(align, 16);
  at = (unsigned)((at + a - 1) / a * a);
  size_t &fixed = g_static_shared[g_kernel_name];
  fixed = (fixed + align - 1) / align * align + bytes;
  require_shared_fits(fixed);
  if (at + bytes + 64 > kSharedBytes) report_not_run("resources", std::string("too much static shared memory at ") + name);
  g_shared_reserved = (unsigned)(at + bytes + 64);
#ifdef SIM_CHECK
  extern void check_shared_variable(unsigned, size_t, const char *);
  check_shared_variable(at, bytes, name);
#endif
  if (t_worker)
    for (BlockState *b : t_worker->resident) memset(b->shared + at, kGarbage, bytes + 64);
  return at;
}

int sim_barrier(int kind, int predicate, int line) {
  Thread *t = t_worker->running;
  BlockState &b = *t->block;
  t->line = line;
  b.count_now += predicate;
  b.and_now &= predicate;
  b.or_now |= predicate;
  t->state = kAtBarrier;
  ++b.waiting;
  if (b.waiting + b.done == b.threads) {
    complete_barrier(b);
    // This thread was queued with the rest; it goes on when its turn comes, after the others started theirs.
  }
  suspend(t);
  return kind == 1 ? b.count_result : kind == 2 ? b.and_result : kind == 3 ? b.or_result : 0;
}

uint64_t sim_warp_exchange(unsigned mask, uint64_t value, int source, int line) {
  warp_meet(mask, value, source, nullptr, line);
  return t_worker->running->value;
}

void sim_warp_gather(unsigned mask, uint64_t value, uint64_t *table, int line) {
  warp_meet(mask, value, -1, table, line);
}

unsigned sim_active_mask(int line) {
  Thread *t = t_worker->running;
  Warp &w = t->block->warp[t->linear >> 5];
  t->line = line;
  t->state = kAtActive;
  w.at_active |= 1u << (t->linear & 31u);
  suspend(t);
  return (unsigned)t->value;
}

void sim_grid_barrier(int line) {
  Worker &w = *t_worker;
  Thread *t = w.running;
  t->line = line;
  if (!g_launch->cooperative)
    report_fault("launch_config", "line " + std::to_string(line) + ": grid.sync() needs \"cooperative\": true in the plan",
                 where_json(nullptr, line));
  t->state = kAtGrid;
  ++w.done_at_grid;
  if (w.done_at_grid == w.live) complete_grid(w);
  suspend(t);
}

void sim_named_barrier(int id, int count, int line) {
  Thread *t = t_worker->running;
  BlockState &b = *t->block;
  t->line = line;
  t->named = id;
  t->state = kAtNamed;
  int here = 0;
  for (unsigned i = 0; i < b.threads; ++i)
    here += b.thread[i].state == kAtNamed && b.thread[i].named == id;
  if (here >= count) {
#ifdef SIM_CHECK
    check_barrier();
#endif
    for (unsigned i = 0; i < b.threads; ++i)
      if (b.thread[i].state == kAtNamed && b.thread[i].named == id) make_ready(&b.thread[i]);
  }
  suspend(t);
}

void sim_yield(void) {
  Worker &w = *t_worker;
  Thread *t = w.running;
  const bool others = w.ready_head < w.ready.size() ||
                      (w.first_unstarted < w.resident.size() && w.live > 1);
  if (!others) {
    sched_yield();
    w.switches = w.switches + 1;
    return;
  }
  Warp &v = t->block->warp[t->linear >> 5];
  make_ready(t);
  if (v.at_active && ++v.yields > 64) settle_active(*t->block, t->linear >> 5, true);
  suspend(t);
}

// Let the others of the launch go between what a thread has read and the change that it makes of it, once.
void sim_before_change(void) {
  Thread *t = t_worker->running;
  if (!g_order || t->contended) return;
  t->contended = true;
  sim_yield();
}

// Give others a turn at every second failure: a lock may be theirs, but a count by many threads ends at the second try.
void sim_swap_failed(void) {
  if (t_worker->running->failures++ & 1u) sim_yield();
}

void sim_fence(void) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#ifdef SIM_CHECK
  check_fence();
#endif
}

void sim_returned_early(void) { t_worker->running->early = true; }

void sim_trap(const char *what, int line) {
  report_fault("crash", "line " + std::to_string(line) + ": " + what, where_json(nullptr, line));
}

void sim_copy_issue(void *to, const unsigned char *bytes, unsigned size) {
#ifdef SIM_CHECK
  check_copy_begins(to, size, __builtin_return_address(0));
#endif
  Thread *t = t_worker->running;
  Copy c{{to, size, {}}, t->batch};
  memcpy(c.what.bytes, bytes, size);
  t->copies.push_back(c);
}

void sim_copy_commit(void) { ++t_worker->running->batch; }

int sim_copy_due(unsigned prior, int all, sim_copy *copy) {
  Thread *t = t_worker->running;
  if (t->landed == t->copies.size() || (!all && (uint64_t)t->copies[t->landed].batch + prior >= t->batch)) return 0;
  *copy = t->copies[t->landed++].what;
  if (t->landed == t->copies.size()) t->copies.clear(), t->landed = 0;
  return 1;
}

void sim_misaligned(const void *address, const char *what, int line) {
  std::string name;
  std::string text = describe_address(address, 1, &name);
  if (text.find(" of `") == std::string::npos || text.find(" the start of ") != std::string::npos || text.find(" the end of ") != std::string::npos)
    text.clear(), name.clear();  // beside every buffer: in shared memory, or nowhere
  report_fault("misaligned", "line " + std::to_string(line) + ": " + what + (text.empty() ? "" : ", not of " + text),
               where_json(nullptr, line) + (name.empty() ? "" : ",\"buffer\":" + json_text(name)));
}

uint64_t sim_clock(void) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
}

std::string thread_text() {
  const sim_context &c = sim_here;
  auto three = [](uint3 v) {
    return "(" + std::to_string(v.x) + ", " + std::to_string(v.y) + ", " + std::to_string(v.z) + ")";
  };
  return "block " + three(c.block) + ", thread " + three(c.thread);
}

std::string where_json(const void *pc, int line) {
  const sim_context &c = sim_here;
  auto three = [](uint3 v) {
    return "[" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + "]";
  };
  std::string out = ",\"kernel\":" + json_text(g_kernel_name) + ",\"launch\":" + std::to_string(g_launch_index);
  if (t_worker && t_worker->running) out += ",\"block\":" + three(c.block) + ",\"thread\":" + three(c.thread);
  if (line) out += ",\"line\":" + std::to_string(line);
  if (pc) out += ",\"pc\":" + std::to_string((uintptr_t)pc);
  return out;
}
