// What both native programs close before anything foreign: files by Landlock, system calls by seccomp.
#pragma once
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cstdint>
#include <string>
#include <vector>

#define ALLOW(n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (n), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

// Ends this process with the thread that started it. CUDA_HARNESS_PARENT says whose thread that was, in case it ended
// before the kernel was asked.
inline void end_with_parent() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const char *parent = getenv("CUDA_HARNESS_PARENT");
  if (parent && atol(parent) != (long)getppid()) _exit(71);
}

inline bool filter(sock_filter *program, unsigned short length) {
  sock_fprog p{length, program};
  return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &p) == 0;
}

// Leaves `readable` paths (to read and to execute) and `writable` folders (to read, to make and remove files in).
inline bool close_files(const std::vector<std::string> &readable, const std::vector<std::string> &writable = {}) {
  const int abi = (int)syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (abi < 1) return false;
  constexpr uint64_t refer = 1ull << 13, truncate = 1ull << 14, control = 1ull << 15;
  struct {
    uint64_t files, net, scoped;
  } attributes{};
  attributes.files = ((1ull << 13) - 1) | (abi >= 2 ? refer : 0) | (abi >= 3 ? truncate : 0) | (abi >= 5 ? control : 0);
  attributes.net = abi >= 4 ? 3 : 0;     // bind and connect by TCP
  attributes.scoped = abi >= 6 ? 3 : 0;  // abstract sockets and signals to outside
  const size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
  const int rules = (int)syscall(SYS_landlock_create_ruleset, &attributes, size, 0);
  if (rules < 0) return false;
  auto add = [&](const std::string &path, uint64_t access) {
    const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
    if (fd < 0) return;
    struct stat s;
    fstat(fd, &s);
    landlock_path_beneath_attr beneath{};
    constexpr uint64_t of_files = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE | truncate;
    beneath.allowed_access = (S_ISDIR(s.st_mode) ? access : access & of_files) & attributes.files;
    beneath.parent_fd = fd;
    syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
    close(fd);
  };
  constexpr uint64_t read = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_DIR;
  constexpr uint64_t write = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_WRITE_FILE |
                             LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | truncate;
  for (const auto &path : readable) add(path, read);
  for (const auto &path : writable) add(path, write);
  const bool done = syscall(SYS_landlock_restrict_self, rules, 0) == 0;
  close(rules);
  return done;
}
