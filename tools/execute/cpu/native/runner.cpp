// One job in one process: reads the job, closes the sandbox, maps the foreign code, runs the plan, reports.
//
//   runner JOB_FD MEMORY_FD RESULT_FD
//
// The job is text, one item a line; tensor contents lie in the shared memory of MEMORY_FD; the report is one line
// of JSON on RESULT_FD. Nothing of the kernel's own output is believed.
#include "closing.h"
#include "runtime.h"

#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <ucontext.h>
#include <algorithm>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

namespace {

constexpr size_t kGuard = 4096;

struct Op {
  explicit Op(char k) : kind(k) {}
  char kind;  // l launch, f fill, c copy, s symbol, w while
  int launch = -1, target = -1, source = -1;
  std::string symbol;
  std::vector<unsigned char> pattern;
  long limit = 0;
  std::vector<Op> body;
};

int g_result_fd = -1;
std::string g_secret;
std::vector<Launch> g_launches;
std::vector<Op> g_ops;
std::vector<std::string> g_warnings;
std::set<std::string> g_seen_warnings;
std::mutex g_report_mutex;
volatile int *g_progress = nullptr;  // current launch, for the parent when it must stop us
void *g_library = nullptr;
uintptr_t g_library_base = 0;
std::map<std::string, const sim_kernel *> g_kernels;
double g_kernel_seconds = 0;
std::vector<double> g_cpu_seconds;  // of the kernels of each call

double now(clockid_t clock = CLOCK_MONOTONIC) {
  timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
double cpu_now() { return now(CLOCK_PROCESS_CPUTIME_ID); }

// Every report starts with the parent's secret of this job.
void send(std::string line) {
  line.insert(0, g_secret);
  size_t at = 0;
  while (at < line.size()) {
    const ssize_t n = write(g_result_fd, line.data() + at, line.size() - at);
    if (n <= 0) break;
    at += (size_t)n;
  }
}

std::string warnings_json() {
  std::string out = "[";
  for (const auto &w : g_warnings) out += (out.size() > 1 ? "," : "") + json_text(w);
  return out + "]";
}

}  // namespace

std::string json_text(const std::string &s) {
  std::string out = "\"";
  for (unsigned char c : s) {
    if (c == '"' || c == '\\')
      out += '\\', out += (char)c;
    else if (c < 32 || c > 126) {
      char b[8];
      snprintf(b, sizeof b, "\\u%04x", c);
      out += b;
    } else
      out += (char)c;
  }
  return out + "\"";
}

void report_fault(const char *fault, const std::string &message, const std::string &extra) {
  g_report_mutex.lock();
  send("{\"status\":\"fault\",\"fault\":" + json_text(fault) + ",\"message\":" + json_text(message) +
       ",\"base\":" + std::to_string(g_library_base) + extra + ",\"warnings\":" + warnings_json() + "}\n");
  _exit(0);
}

void report_not_run(const char *reason, const std::string &message, const std::string &extra) {
  g_report_mutex.lock();
  send("{\"status\":\"not_run\",\"reason\":" + json_text(reason) + ",\"message\":" + json_text(message) +
       ",\"base\":" + std::to_string(g_library_base) + extra + "}\n");
  _exit(0);
}

void add_warning(const std::string &text) {
  std::lock_guard<std::mutex> hold(g_report_mutex);
  if (g_warnings.size() < 20 && g_seen_warnings.insert(text).second) g_warnings.push_back(text);
}

// Bytes that no kernel writes by chance: they depend on the position and on the job's seed.
unsigned char poison_byte(size_t position) {
  uint64_t z = position / 8 + 0x9e3779b97f4a7c15ull * (g_poison + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return (unsigned char)((z ^ (z >> 31)) >> (position % 8 * 8));
}

// Words that both modes use for a place in or near a buffer.
std::string beside(uintptr_t a, unsigned n, uintptr_t low, size_t bytes, size_t item, const std::string &type, const std::string &name) {
  auto plural = [](size_t count, const std::string &what) {
    return (count == 1 ? "one" : std::to_string(count)) + " " + what + (count == 1 ? "" : "s");
  };
  const std::string size = name + " (" + plural(item ? bytes / item : 0, type) + ")";
  if (a < low) return plural((low - a + item - 1) / item, type) + " before the start of " + size;
  if (a >= low + bytes) return plural((a - low - bytes) / item + 1, type) + " past the end of " + size;
  if (a + n > low + bytes) return "across the end of " + size;
  return (type == "byte" ? "byte " : "element ") + std::to_string((a - low) / item) + " of " + name;
}

std::string type_name(const std::string &dtype) {
  static const std::pair<const char *, const char *> names[] = {
      {"float32", "float"}, {"float64", "double"}, {"float16", "half"}, {"int32", "int"}, {"uint32", "unsigned int"},
      {"int8", "byte"}, {"uint8", "byte"}, {"int64", "long long"}, {"uint64", "unsigned long long"}};
  for (const auto &n : names)
    if (dtype == n.first) return n.second;
  return dtype + " element";
}

std::string describe_address(const void *address, size_t bytes, std::string *name) {
  const uintptr_t a = (uintptr_t)address;
  const Buffer *best = nullptr;
  uintptr_t distance = 1ull << 33;
  for (const Buffer &b : g_buffers) {
    if (!b.data) continue;
    const uintptr_t low = (uintptr_t)b.data, high = low + b.bytes, d = a < low ? low - a : a >= high ? a - high + 1 : 0;
    if (d < distance) distance = d, best = &b;
  }
  if (!best) return "";
  if (name) *name = best->name;
  return beside(a, (unsigned)bytes, (uintptr_t)best->data, best->bytes, best->item, type_name(best->dtype), "`" + best->name + "`");
}

namespace {

// ---- the sandbox ----
// Before the foreign code is mapped: what loading a library needs, and nothing that starts or reaches anything.
bool close_sandbox_for_loading() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      ALLOW(SYS_read), ALLOW(SYS_write), ALLOW(SYS_openat), ALLOW(SYS_close), ALLOW(SYS_fstat), ALLOW(SYS_newfstatat),
      ALLOW(SYS_mmap), ALLOW(SYS_mprotect), ALLOW(SYS_munmap), ALLOW(SYS_madvise), ALLOW(SYS_brk), ALLOW(SYS_pread64),
      ALLOW(SYS_lseek), ALLOW(SYS_futex), ALLOW(SYS_exit), ALLOW(SYS_exit_group), ALLOW(SYS_rt_sigreturn),
      ALLOW(SYS_rt_sigprocmask), ALLOW(SYS_rt_sigaction), ALLOW(SYS_sigaltstack), ALLOW(SYS_sched_yield), ALLOW(SYS_clock_gettime),
      ALLOW(SYS_restart_syscall), ALLOW(SYS_getpid), ALLOW(SYS_gettid), ALLOW(SYS_tgkill), ALLOW(SYS_seccomp),
      ALLOW(SYS_sched_getaffinity), ALLOW(SYS_getrandom), ALLOW(SYS_prctl), ALLOW(SYS_access), ALLOW(SYS_readlink), ALLOW(SYS_getcwd),
      // An errno, not a signal: the loader holds signals back, and copes with a refusal.
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
  return filter(program, sizeof program / sizeof *program);
}

// Executable ranges of the C library and the loader: the only places that system calls come from.
int library_text(dl_phdr_info *info, size_t, void *found) {
  const char *path = info->dlpi_name ? info->dlpi_name : "", *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  if (strncmp(name, "libc.", 5) != 0 && strncmp(name, "libc-", 5) != 0 && strncmp(name, "libpthread", 10) != 0 &&
      strncmp(name, "ld-", 3) != 0 && strncmp(name, "linux-vdso", 10) != 0)
    return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &p = info->dlpi_phdr[i];
    if (p.p_type != PT_LOAD || !(p.p_flags & PF_X)) continue;
    const uint64_t low = info->dlpi_addr + p.p_vaddr;
    ((std::vector<std::pair<uint64_t, uint64_t>> *)found)->push_back({low, low + p.p_memsz});
  }
  return 0;
}

int kernel_text(dl_phdr_info *info, size_t, void *) {
  if (info->dlpi_addr != g_library_base) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &p = info->dlpi_phdr[i];
    if (p.p_type == PT_LOAD && (p.p_flags & PF_X)) g_text_low = info->dlpi_addr + p.p_vaddr, g_text_high = g_text_low + p.p_memsz;
  }
  return 1;
}

// Before it runs: computing, reporting on our channel, ending; and only by the C library's own instructions, so that
// bytes in the kernel's text that spell a system call are of no use.
bool close_sandbox_for_running() {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  dl_iterate_phdr(library_text, &ranges);
  bool narrow = !ranges.empty();
  for (const auto &r : ranges) narrow = narrow && r.first >> 32 == (r.second - 1) >> 32;
  std::vector<sock_filter> program;
  auto add = [&](std::initializer_list<sock_filter> more) { program.insert(program.end(), more); };
  const unsigned low = offsetof(seccomp_data, instruction_pointer), high = low + 4;
  for (size_t i = 0; narrow && i < ranges.size(); ++i) {
    const unsigned to_end = (unsigned)((ranges.size() - i - 1) * 6 + 1);  // over the other ranges and the trap
    add({BPF_STMT(BPF_LD | BPF_W | BPF_ABS, high), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(ranges[i].first >> 32), 0, 4),
         BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low), BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)ranges[i].first, 0, 2),
         BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, (uint32_t)(ranges[i].second - 1), 1, 0), BPF_STMT(BPF_JMP | BPF_JA, to_end)});
  }
  if (narrow) add({BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)});
  const unsigned first = offsetof(seccomp_data, args), third = first + 16;
  add({BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
       // write: to the report only
       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 0, 4), BPF_STMT(BPF_LD | BPF_W | BPF_ABS, first),
       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)g_result_fd, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
       // mmap, mprotect: nothing executable
       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 1, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 4),
       BPF_STMT(BPF_LD | BPF_W | BPF_ABS, third), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
       // Opening a file: an errno. A C library that counts processors (malloc of 2.39, for a ninth arena) copes with it.
       BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
       ALLOW(SYS_futex), ALLOW(SYS_exit), ALLOW(SYS_exit_group), ALLOW(SYS_rt_sigreturn), ALLOW(SYS_rt_sigprocmask),
       ALLOW(SYS_sched_yield), ALLOW(SYS_clock_gettime), ALLOW(SYS_restart_syscall), ALLOW(SYS_munmap), ALLOW(SYS_madvise),
       ALLOW(SYS_brk), ALLOW(SYS_gettid), ALLOW(SYS_getpid), ALLOW(SYS_tgkill),
       ALLOW(SYS_sched_getaffinity), ALLOW(SYS_getrandom),  // malloc in a thread that had no need of it before
       BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP)});
  return filter(program.data(), (unsigned short)program.size());
}

// ---- faults of the foreign code ----
// The instruction moves a whole vector and faults when its address is not a multiple of the vector's size.
bool moves_aligned(const unsigned char *p) {
  int i = 0;
  while (i < 4 && (p[i] == 0x66 || p[i] == 0xf2 || p[i] == 0xf3 || (p[i] & 0xf0) == 0x40)) ++i;
  if (p[i] == 0x0f)
    i += 1;
  else if (p[i] == 0xc5)
    i += 2;
  else if (p[i] == 0xc4)
    i += 3;
  else
    return false;
  const unsigned char op = p[i];
  return op == 0x28 || op == 0x29 || op == 0x2b || op == 0x6f || op == 0x7f || op == 0xe7;
}

void on_fault(int signal, siginfo_t *info, void *context) {
  const ucontext_t *u = (const ucontext_t *)context;
  const void *pc = (const void *)u->uc_mcontext.gregs[REG_RIP];
  if (signal == SIGSYS)
    report_fault("crash", "the kernel made a system call (" + std::to_string(info->si_syscall) + "), which device code cannot",
                 where_json(pc));
  if (signal == SIGFPE) report_fault("crash", "integer division by zero", where_json(pc));
  if (signal == SIGSEGV || signal == SIGBUS) {
    const char *p = (const char *)info->si_addr;
    const char *sp = (const char *)u->uc_mcontext.gregs[REG_RSP];
    constexpr int no_address = 0x80;  // SI_KERNEL: the processor refused the access before it had an address
    if (signal == SIGSEGV && info->si_code == no_address) {
      if (moves_aligned((const unsigned char *)pc))
        report_fault("misaligned", "a vector is loaded from or stored to an address that is not a multiple of its size", where_json(pc));
      report_fault("out_of_bounds", "a wild pointer is used", where_json(pc));
    }
    if (p >= sp - 65536 && p < sp + 4096)
      report_fault("crash", "a thread's local arrays or recursion overflow its stack", where_json(pc));
    if ((uintptr_t)p < 65536)
      report_fault("out_of_bounds", "a null pointer is used (address " + std::to_string((uintptr_t)p) + ")", where_json(pc));
    std::string name;
    const std::string text = describe_address(p, 1, &name);
    const std::string extra = name.empty() ? "" : ",\"buffer\":" + json_text(name);
    report_fault("out_of_bounds", text.empty() ? "a wild pointer is used" : "an access, " + text, where_json(pc) + extra);
  }
  report_fault("crash", "the kernel stopped with signal " + std::to_string(signal), where_json(pc));
}

// What -fsanitize=float-cast-overflow asks where the kernel's text could not be made to saturate as a GPU does.
struct FloatCast {
  const char *file;
  uint32_t line, column;
  const struct Type {
    uint16_t kind, info;
    char name[1];
  } *from, *to;
};
extern "C" void __ubsan_handle_float_cast_overflow(FloatCast *data, unsigned long) {
  const std::string file = data->file ? data->file : "";
  const bool own = file.size() >= 9 && file.compare(file.size() - 9, 9, "kernel.cu") == 0;
  report_not_run("unsupported",
                 std::string("a value of type ") + data->from->name + " beyond the range of " + data->to->name +
                     " is converted to it in a way that this executor cannot make saturate; write the cast out",
                 own ? where_json(nullptr, (int)data->line) + ",\"column\":" + std::to_string(data->column)
                     : where_json(__builtin_return_address(0)));
}

void catch_faults() {
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int s : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS, SIGABRT, SIGTRAP}) sigaction(s, &action, nullptr);
}

// ---- memory ----
char *map_buffer(size_t bytes) {
#ifdef SIM_CHECK
  return check_allocate(bytes);
#else
  // Guard bytes behind the buffer, then a page that faults; the start is aligned for every vector type.
  const size_t page = 4096;
  const size_t body = (bytes + kGuard + page - 1) / page * page;
  char *base = (char *)mmap(nullptr, body + 2 * page + kGuard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED) report_not_run("resources", "no memory for a buffer of " + std::to_string(bytes) + " bytes");
  if (mprotect(base + page, body + kGuard, PROT_READ | PROT_WRITE) != 0)
    report_not_run("resources", "no memory for a buffer of " + std::to_string(bytes) + " bytes");
  memset(base + page, 0xC3, kGuard);
  memset(base + page + kGuard + bytes, 0xC3, body - bytes);
  return base + page + kGuard;
#endif
}

#ifndef SIM_CHECK
void check_guards() {
  for (const Buffer &b : g_buffers) {
    const size_t behind = (b.bytes + kGuard + 4095) / 4096 * 4096 - b.bytes;
    const char *end = b.data + b.bytes;
    for (size_t i = 0; i < behind; ++i)
      if ((unsigned char)end[i] != 0xC3)
        report_fault("out_of_bounds", "a write, " + describe_address(end + i, 1, nullptr),
                     where_json() + ",\"buffer\":" + json_text(b.name));
    for (size_t i = 1; i <= kGuard; ++i)
      if ((unsigned char)b.data[-(ptrdiff_t)i] != 0xC3)
        report_fault("out_of_bounds", "a write, " + describe_address(b.data - i, 1, nullptr),
                     where_json() + ",\"buffer\":" + json_text(b.name));
  }
}
#endif

void poison(Buffer &b) {
  size_t i = 0;
  for (; i + 8 <= b.bytes; i += 8) {
    uint64_t z = i / 8 + 0x9e3779b97f4a7c15ull * (g_poison + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    z ^= z >> 31;
    memcpy(b.data + i, &z, 8);
  }
  for (; i < b.bytes; ++i) b.data[i] = (char)poison_byte(i);
}

// ---- the job ----
std::vector<unsigned char> from_hex(const std::string &s) {
  std::vector<unsigned char> out;
  for (size_t i = 0; i + 1 < s.size(); i += 2) out.push_back((unsigned char)strtoul(s.substr(i, 2).c_str(), nullptr, 16));
  return out;
}

struct Job {
  std::string library;
  std::vector<std::string> readable;
  unsigned calls = 1, workers = 1;
  double cpu_seconds = 20;
  size_t memory = 8ull << 30;
  bool unsafe = false, count = false;
  size_t region = 0;  // bytes of one call's contents in the shared memory
};

void parse(std::istream &in, Job &job) {
  std::vector<std::vector<Op> *> open{&g_ops};
  std::string line, word;
  while (std::getline(in, line)) {
    std::istringstream s(line);
    s >> word;
    if (word == "secret") {
      s >> g_secret;
    } else if (word == "library") {
      s >> std::ws;
      std::getline(s, job.library);
    } else if (word == "readable") {
      std::string p;
      s >> std::ws;
      std::getline(s, p);
      job.readable.push_back(p);
    } else if (word == "limits") {
      s >> job.calls >> job.workers >> job.cpu_seconds >> job.memory >> job.unsafe >> g_poison >> job.region >> g_order >> job.count;
#ifdef SIM_CHECK
      g_count = job.count;
#endif
    } else if (word == "buffer") {
      Buffer b;
      s >> b.name >> b.dtype >> b.bytes >> b.item >> b.role;
      g_buffers.push_back(b);
    } else if (word == "launch") {
      Launch l;
      s >> l.kernel >> l.grid.x >> l.grid.y >> l.grid.z >> l.block.x >> l.block.y >> l.block.z >> l.shared >> l.cooperative;
      g_launches.push_back(l);
      Op op('l');
      op.launch = (int)g_launches.size() - 1;
      open.back()->push_back(op);
    } else if (word == "pointer") {
      size_t index;
      s >> index;
      // The address is filled in when the buffers are mapped.
      std::vector<unsigned char> raw{'P'};
      raw.resize(1 + sizeof index);
      memcpy(raw.data() + 1, &index, sizeof index);
      g_launches.back().arguments.push_back(raw);
    } else if (word == "value") {
      std::string hex;
      s >> hex;
      std::vector<unsigned char> raw = from_hex(hex);
      raw.insert(raw.begin(), 'V');
      g_launches.back().arguments.push_back(raw);
    } else if (word == "fill") {
      Op op('f');
      std::string hex;
      s >> op.target >> hex;
      op.pattern = from_hex(hex);
      open.back()->push_back(op);
    } else if (word == "copy") {
      Op op('c');
      s >> op.target >> op.source;
      open.back()->push_back(op);
    } else if (word == "symbol") {
      Op op('s');
      s >> op.symbol >> op.source;
      open.back()->push_back(op);
    } else if (word == "while") {
      Op op('w');
      s >> op.target >> op.limit;
      open.back()->push_back(op);
      open.push_back(&open.back()->back().body);
    } else if (word == "end") {
      open.pop_back();
    }
  }
}

void bind_arguments() {
  for (Launch &l : g_launches) {
    const auto found = g_kernels.find(l.kernel);
    if (found == g_kernels.end()) report_fault("launch_config", "kernel '" + l.kernel + "' is not in the program");
    const sim_kernel &k = *found->second;
    if (k.parameters != l.arguments.size())
      report_fault("launch_config", "kernel '" + l.kernel + "' takes " + std::to_string(k.parameters) + " arguments, the plan gives " +
                                        std::to_string(l.arguments.size()));
    for (size_t i = 0; i < l.arguments.size(); ++i) {
      auto &a = l.arguments[i];
      if (a[0] == 'P') {
        size_t index;
        memcpy(&index, a.data() + 1, sizeof index);
        char *p = g_buffers[index].data;
        a.resize(sizeof p);
        memcpy(a.data(), &p, sizeof p);
      } else {
        a.erase(a.begin());
      }
      if (a.size() != k.sizes[i])
        report_fault("launch_config", "argument " + std::to_string(i + 1) + " of '" + l.kernel + "' has " + std::to_string(a.size()) +
                                          " bytes, the parameter has " + std::to_string(k.sizes[i]));
      a.resize(std::max<size_t>(a.size(), 16));
    }
  }
}

void run_ops(const std::vector<Op> &ops) {
  for (const Op &op : ops) {
    if (op.kind == 'l') {
      const Launch &l = g_launches[op.launch];
      g_launch_index = op.launch;
      g_kernel_name = l.kernel;
      *g_progress = op.launch;
      const double start = now(), cpu_start = cpu_now();
      run_launch(l, *g_kernels[l.kernel]);
      g_kernel_seconds += now() - start;
      g_cpu_seconds.back() += cpu_now() - cpu_start;
#ifndef SIM_CHECK
      check_guards();
#endif
    } else if (op.kind == 'f') {
      Buffer &b = g_buffers[op.target];
      const size_t n = op.pattern.size();
      for (size_t i = 0; i + n <= b.bytes; i += n) memcpy(b.data + i, op.pattern.data(), n);
#ifdef SIM_CHECK
      check_add_range(b.data, b.bytes, true);
#endif
    } else if (op.kind == 'c') {
      memcpy(g_buffers[op.target].data, g_buffers[op.source].data, g_buffers[op.source].bytes);
#ifdef SIM_CHECK
      check_add_range(g_buffers[op.target].data, g_buffers[op.target].bytes, true);
#endif
    } else if (op.kind == 's') {
      void *const *place = (void *const *)dlsym(g_library, ("sim_symbol_" + op.symbol).c_str());
      void *symbol = place ? *place : nullptr;
      if (!symbol) report_fault("launch_config", "the plan fills symbol '" + op.symbol + "', which the kernel does not define");
      const unsigned long *size = (const unsigned long *)dlsym(g_library, ("sim_size_of_" + op.symbol).c_str());
      const Buffer &b = g_buffers[op.source];
      if (size && b.bytes > *size)
        report_fault("launch_config", "symbol '" + op.symbol + "' holds " + std::to_string(*size) + " bytes, '" + b.name + "' has " +
                                          std::to_string(b.bytes));
      memcpy(symbol, b.data, b.bytes);
    } else {
      const Buffer &flag = g_buffers[op.target];
      for (long i = 0; i < op.limit; ++i) {
        bool set = false;
        for (size_t k = 0; k < flag.item && k < flag.bytes; ++k) set = set || flag.data[k];
        if (!set) break;
        run_ops(op.body);
      }
    }
  }
}

std::string unwritten_json(char *mask_region) {
  std::string out = "{";
  size_t at = 0;
  for (const Buffer &b : g_buffers) {
    if (b.role != 'o') continue;
    size_t bytes = 0;
    const size_t items = b.item ? b.bytes / b.item : 0;
    for (size_t i = 0; i < items; ++i) {
      bool untouched = true;
#ifdef SIM_CHECK
      untouched = !check_written(b.data + i * b.item, b.item);
#else
      for (size_t k = 0; untouched && k < b.item; ++k)
        untouched = (unsigned char)b.data[i * b.item + k] == poison_byte(i * b.item + k);
      if (b.item < 8 && untouched) {
        // A few bytes equal the poison by chance; a run of eight does not. Fewer in all tell nothing.
        const size_t group = std::min(items, 8 / b.item), first = std::min(i / group * group, items - group);
        untouched = group * b.item == 8;
        for (size_t j = first * b.item; untouched && j < (first + group) * b.item; ++j)
          untouched = (unsigned char)b.data[j] == poison_byte(j);
      }
#endif
      mask_region[at + i] = untouched;
      bytes += untouched ? b.item : 0;
    }
    at += items;
    out += (out.size() > 1 ? "," : "") + json_text(b.name) + ":" + std::to_string(bytes);
  }
  return out + "}";
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 4) return 64;
  const int job_fd = atoi(argv[1]), memory_fd = atoi(argv[2]);
  g_result_fd = atoi(argv[3]);
  end_with_parent();
  std::string text;
  char chunk[65536];
  for (ssize_t n; (n = read(job_fd, chunk, sizeof chunk)) > 0;) text.append(chunk, (size_t)n);
  close(job_fd);
  Job job;
  std::istringstream in(text);
  parse(in, job);

  struct stat s;
  fstat(memory_fd, &s);
  char *shared = (char *)mmap(nullptr, (size_t)s.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
  close(memory_fd);
  if (shared == MAP_FAILED) report_not_run("resources", "no memory for the job's contents");
  g_progress = (volatile int *)shared;
  *g_progress = -1;

  const rlimit cpu{(rlim_t)job.cpu_seconds + 1, (rlim_t)job.cpu_seconds + 2}, none{0, 0}, files{64, 64};
  setrlimit(RLIMIT_CPU, &cpu);
  setrlimit(RLIMIT_CORE, &none);
  setrlimit(RLIMIT_NOFILE, &files);
  setrlimit(RLIMIT_FSIZE, &none);
  mallopt(M_ARENA_MAX, 8);  // more make malloc read files under /sys
  catch_faults();
#ifdef SIM_CHECK
  check_setup();
  job.workers = 1;
#endif
  runtime_start((int)job.workers);
#ifndef SIM_CHECK
  const rlimit space{job.memory + ((rlim_t)6 << 30), job.memory + ((rlim_t)6 << 30)};
  setrlimit(RLIMIT_AS, &space);
#endif
  std::vector<std::string> readable = job.readable;
  readable.push_back(job.library);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  close_files(readable);  // no file but the libraries and the program itself, all read-only
  const bool calls_closed = close_sandbox_for_loading();
  if (!calls_closed && !job.unsafe) {
    send("{\"status\":\"no_sandbox\",\"message\":\"seccomp filters do not work here\"}\n");
    _exit(0);
  }
  g_library = dlopen(job.library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!g_library) report_not_run("environment", std::string("the compiled kernel does not load: ") + dlerror());
  const sim_kernel *table = (const sim_kernel *)dlsym(g_library, "sim_kernels");
  const unsigned *count = (const unsigned *)dlsym(g_library, "sim_kernel_count");
  if (!table || !count) report_not_run("environment", "the compiled kernel has no table of entries");
  Dl_info info;
  if (dladdr((const void *)table, &info)) g_library_base = (uintptr_t)info.dli_fbase;
  dl_iterate_phdr(kernel_text, nullptr);
  for (unsigned i = 0; i < *count; ++i) g_kernels[table[i].name] = &table[i];

  g_shared_is_exact = !dlsym(g_library, "sim_foreign_storage");
#ifdef SIM_CHECK
  const sim_global *const *first = (const sim_global *const *)dlsym(g_library, "sim_globals_first");
  const sim_global *const *end = (const sim_global *const *)dlsym(g_library, "sim_globals_end");
  if (first && end) check_globals(*first, *end);
#endif
  for (Buffer &b : g_buffers) b.data = map_buffer(b.bytes);
  bind_arguments();
  if (calls_closed && !close_sandbox_for_running() && !job.unsafe) report_not_run("environment", "the sandbox did not close");

  std::string unwritten = "[";
  const unsigned seed = g_poison;
  for (unsigned call = 0; call < job.calls; ++call) {
    char *region = shared + 4096 + (size_t)call * job.region;
    g_poison = seed + 7919u * call;
    size_t at = 0;
    for (Buffer &b : g_buffers) {
      if (b.role == 'i' || b.role == 'b') {
        memcpy(b.data, region + at, b.bytes);
        at += (b.bytes + 63) / 64 * 64;
      } else {
        poison(b);
      }
#ifdef SIM_CHECK
      check_add_range(b.data, b.bytes, b.role == 'i' || b.role == 'b');
#endif
    }
    g_cpu_seconds.push_back(0);
    run_ops(g_ops);
    at = 0;
    for (Buffer &b : g_buffers) {
      if (b.role == 'i' && memcmp(b.data, region + at, b.bytes) != 0)
        report_fault("input_modified", "input '" + b.name + "' was modified; inputs are read-only", where_json() + ",\"buffer\":" + json_text(b.name));
      if (b.role == 'b') memcpy(region + at, b.data, b.bytes);
      if (b.role == 'i' || b.role == 'b') at += (b.bytes + 63) / 64 * 64;
    }
    for (Buffer &b : g_buffers)
      if (b.role == 'o') {
        memcpy(region + at, b.data, b.bytes);
        at += (b.bytes + 63) / 64 * 64;
      }
    unwritten += (call ? "," : "") + unwritten_json(region + at);
  }
  std::string counted, cpu_seconds;
  for (double s : g_cpu_seconds) cpu_seconds += (cpu_seconds.empty() ? "" : ",") + std::to_string(s);
#ifdef SIM_CHECK
  if (g_count) counted = ",\"facts\":" + count_json();
  counted += ",\"reached\":" + reached_json(g_library_base);
#endif
  send("{\"status\":\"ok\",\"seconds\":" + std::to_string(g_kernel_seconds) + ",\"cpu_seconds\":[" + cpu_seconds +
       "],\"unwritten\":" + unwritten + "],\"warnings\":" +
       warnings_json() + counted + "}\n");
  _exit(0);
}
