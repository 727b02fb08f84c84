// Starts the compiler on a foreign text behind a sandbox that its children inherit.
//
//   contain UNSAFE CPU_SECONDS MEMORY_BYTES FILE_BYTES [-r READABLE]... [-w WRITABLE]... -- PROGRAM ARGUMENT...
//
// The compiler needs to start its parts and to write its folder; it has no network, no signals to others, no way
// into another process, and no file beyond its own, its headers and the system's libraries.
#include "closing.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <cstdlib>

#define REFUSE(n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (n), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

static bool close_calls() {
  constexpr unsigned first = offsetof(seccomp_data, args);
  constexpr int pidfd_open = 434, pidfd_getfd = 438, pidfd_send_signal = 424, io_uring_setup = 425, mount_setattr = 442;
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000u, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      // the network
      REFUSE(SYS_socket), REFUSE(SYS_socketpair), REFUSE(SYS_connect), REFUSE(SYS_bind), REFUSE(SYS_listen), REFUSE(SYS_accept),
      REFUSE(SYS_accept4), REFUSE(SYS_sendto), REFUSE(SYS_sendmsg), REFUSE(SYS_sendmmsg),
      // other processes
      REFUSE(SYS_kill), REFUSE(SYS_tkill), REFUSE(SYS_tgkill), REFUSE(SYS_rt_sigqueueinfo), REFUSE(SYS_rt_tgsigqueueinfo),
      REFUSE(SYS_ptrace), REFUSE(SYS_process_vm_readv), REFUSE(SYS_process_vm_writev), REFUSE(SYS_kcmp), REFUSE(pidfd_open),
      REFUSE(pidfd_getfd), REFUSE(pidfd_send_signal),
      // the system
      REFUSE(SYS_mount), REFUSE(SYS_umount2), REFUSE(SYS_pivot_root), REFUSE(SYS_chroot), REFUSE(SYS_setns), REFUSE(SYS_unshare),
      REFUSE(mount_setattr), REFUSE(SYS_bpf), REFUSE(SYS_perf_event_open), REFUSE(SYS_userfaultfd), REFUSE(io_uring_setup),
      REFUSE(SYS_keyctl), REFUSE(SYS_add_key), REFUSE(SYS_request_key), REFUSE(SYS_kexec_load), REFUSE(SYS_init_module),
      REFUSE(SYS_finit_module), REFUSE(SYS_delete_module), REFUSE(SYS_reboot), REFUSE(SYS_swapon), REFUSE(SYS_swapoff),
      REFUSE(SYS_settimeofday), REFUSE(SYS_clock_settime), REFUSE(SYS_sethostname), REFUSE(SYS_setuid), REFUSE(SYS_setgid),
      REFUSE(SYS_mknod), REFUSE(SYS_mknodat), REFUSE(SYS_chmod), REFUSE(SYS_fchmodat), REFUSE(SYS_chown), REFUSE(SYS_fchownat),
      // limits: one's own only
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 3), BPF_STMT(BPF_LD | BPF_W | BPF_ABS, first),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  return filter(program, sizeof program / sizeof *program);
}

static void bound(int what, rlim_t most) {
  const rlimit limit{most, most};
  setrlimit((__rlimit_resource)what, &limit);
}

int main(int argc, char **argv) {
  if (argc < 7) return 64;
  const bool unsafe = atoi(argv[1]) != 0;
  std::vector<std::string> readable, writable;
  int at = 5;
  for (; at + 1 < argc && strcmp(argv[at], "--") != 0; at += 2) (argv[at][1] == 'w' ? writable : readable).push_back(argv[at + 1]);
  if (at + 1 >= argc) return 64;
  end_with_parent();
  bound(RLIMIT_CPU, strtoul(argv[2], nullptr, 10));
  bound(RLIMIT_AS, strtoul(argv[3], nullptr, 10));
  bound(RLIMIT_FSIZE, strtoul(argv[4], nullptr, 10));
  bound(RLIMIT_CORE, 0);
  bound(RLIMIT_NOFILE, 256);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  close_files(readable, writable);
  if (!close_calls() && !unsafe) {
    fputs("cuda_harness: seccomp filters do not work here\n", stderr);
    return 97;
  }
  execv(argv[at + 1], argv + at + 1);
  fprintf(stderr, "cannot start %s: %s\n", argv[at + 1], strerror(errno));
  return 127;
}
