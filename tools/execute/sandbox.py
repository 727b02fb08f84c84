"""Containment of foreign Python on Linux without root: resource limits, Landlock, a seccomp allow-list.

Applied in the child itself before the foreign text is compiled. The native runner of the CPU executor closes its
own, narrower sandbox in C++ (tools/execute/cpu/native/runner.cpp).
"""

import contextlib
import ctypes
import os
import platform
import resource
import struct
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from cuda_harness.state.errors import SandboxUnavailable

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1
_RET_ALLOW, _RET_KILL, _RET_EPERM = 0x7FFF0000, 0x80000000, 0x00050001
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""Classic BPF: load a word of struct seccomp_data, jumps, return."""
_O_WRITING = (
    os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | (os.O_TMPFILE & ~os.O_DIRECTORY)
)
_LANDLOCK_READ = 1 << 2 | 1 << 3 | 1 << 0  # read_file, read_dir, execute (shared objects are mapped)

_X86 = {
    "read": 0, "write": 1, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8, "mmap": 9,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "ioctl": 16,
    "pread64": 17, "readv": 19, "writev": 20, "access": 21, "sched_yield": 24, "mremap": 25, "madvise": 28, "dup": 32,
    "nanosleep": 35, "getpid": 39, "exit": 60, "uname": 63, "fcntl": 72, "getcwd": 79, "readlink": 89, "getrlimit": 97,
    "getrusage": 98, "sysinfo": 99, "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108, "sigaltstack": 131,
    "gettid": 186, "futex": 202, "sched_getaffinity": 204, "getdents64": 217, "restart_syscall": 219,
    "clock_gettime": 228, "clock_getres": 229, "clock_nanosleep": 230, "exit_group": 231, "openat": 257,
    "newfstatat": 262, "readlinkat": 267, "set_robust_list": 273, "prlimit64": 302, "getrandom": 318, "statx": 332,
    "rseq": 334, "faccessat2": 439, "getppid": 110,
}  # fmt: skip
_ARM = {
    "read": 63, "write": 64, "close": 57, "fstat": 80, "lseek": 62, "mmap": 222, "mprotect": 226, "munmap": 215,
    "brk": 214, "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "ioctl": 29, "pread64": 67,
    "readv": 65, "writev": 66, "sched_yield": 124, "mremap": 216, "madvise": 233, "dup": 23, "nanosleep": 101,
    "getpid": 172, "exit": 93, "uname": 160, "fcntl": 25, "getcwd": 17, "getrusage": 165, "sysinfo": 179, "getuid": 174,
    "getgid": 176, "geteuid": 175, "getegid": 177, "sigaltstack": 132, "gettid": 178, "futex": 98,
    "sched_getaffinity": 123, "getdents64": 61, "restart_syscall": 128, "clock_gettime": 113, "clock_getres": 114,
    "clock_nanosleep": 115, "exit_group": 94, "openat": 56, "newfstatat": 79, "readlinkat": 78, "set_robust_list": 99,
    "prlimit64": 261, "getrandom": 278, "statx": 291, "rseq": 293, "faccessat2": 439, "ppoll": 73, "getppid": 173,
}  # fmt: skip
_ARCHES = {"x86_64": (0xC000003E, _X86, 317, 444), "aarch64": (0xC00000B7, _ARM, 277, 444)}
"""Machine -> audit architecture, allowed system calls, numbers of seccomp and of landlock_create_ruleset."""


@dataclass(frozen=True)
class SandboxFacts:
    """What works on this machine, each tried in a child."""

    seccomp: bool
    landlock_abi: int | None

    @property
    def contains(self) -> bool:
        """Whether foreign code may run here."""
        return self.seccomp


def seccomp_program(machine: str | None = None) -> bytes:
    """Return the filter for foreign Python, an array of `struct sock_filter`.

    It may compute, map memory and read files; whatever else it asks for fails with EPERM: sockets, new processes and
    threads, signals to others, opening for writing, limits of others, terminal and device control.
    """
    arch, allowed, _, _ = _ARCHES[machine or platform.machine()]
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, 4),  # the architecture
        (_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _RET_KILL),
        (_LOAD, 0, 0, 0),  # the call's number
        (_AT_LEAST, 0, 1, 0x40000000),  # numbers of the x32 table
        (_RETURN, 0, 0, _RET_KILL),
    ]
    for name, number in sorted(allowed.items(), key=lambda item: item[1]):
        body = _checked(name)
        code += [(_EQUAL, 0, len(body), number), *body]
    code.append((_RETURN, 0, 0, _RET_EPERM))
    return b"".join(struct.pack("<HBBI", *c) for c in code)


def _checked(name: str) -> list[tuple[int, int, int, int]]:
    """Return what follows when call `name` is met: allowed at once, or only with harmless arguments."""
    if name == "openat":  # flags are the third argument; nothing is opened for writing or made
        return [
            (_LOAD, 0, 0, 32),
            (_ANY_BIT, 1, 0, _O_WRITING),
            (_RETURN, 0, 0, _RET_ALLOW),
            (_RETURN, 0, 0, _RET_EPERM),
        ]
    if name == "prlimit64":  # the first argument is a process: 0 is the caller's own
        accepted: tuple[int, ...] = (0,)
        offset = 16
    elif name == "ioctl":
        accepted, offset = (0x5401, 0x5451), 24  # TCGETS (is it a terminal?), FIOCLEX
    elif name == "fcntl":
        accepted, offset = (0, 1, 2, 3, 1030), 24  # F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC
    else:
        return [(_RETURN, 0, 0, _RET_ALLOW)]
    tests = [(_EQUAL, len(accepted) - i, 0, value) for i, value in enumerate(accepted)]
    return [(_LOAD, 0, 0, offset), *tests, (_RETURN, 0, 0, _RET_EPERM), (_RETURN, 0, 0, _RET_ALLOW)]


def close_calls() -> bool:
    """Install the seccomp filter in this process; return whether it holds."""
    if platform.machine() not in _ARCHES:
        return False
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    program = seccomp_program()
    buffer = ctypes.create_string_buffer(program, len(program))
    fprog = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    holder = ctypes.create_string_buffer(fprog, len(fprog))
    number = _ARCHES[platform.machine()][2]
    return int(_libc.syscall(number, _SECCOMP_SET_MODE_FILTER, 0, holder)) == 0


def landlock_abi() -> int | None:
    """Return the kernel's Landlock version, `None` without it."""
    abi = int(_libc.syscall(444, None, 0, 1))
    return abi if abi >= 1 else None


def close_files(readable: Iterable[str]) -> bool:
    """Leave only `readable` paths, read-only, to this process, and no network; return whether Landlock holds."""
    abi = landlock_abi()
    if abi is None:
        return False
    # Rights by version: 1 has thirteen, 2 adds refer, 3 truncate, 5 device control; 4 adds TCP, 6 scopes.
    files = (1 << 13) - 1 | (abi >= 2) << 13 | (abi >= 3) << 14 | (abi >= 5) << 15
    fields = [files] + [3] * (abi >= 4) + [3] * (abi >= 6)
    attribute = ctypes.create_string_buffer(struct.pack(f"<{len(fields)}Q", *fields), 8 * len(fields))
    rules = int(_libc.syscall(444, attribute, 8 * len(fields), 0))
    if rules < 0:
        return False
    try:
        for path in readable:
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
                access = _LANDLOCK_READ if os.path.isdir(path) else 1 << 2 | 1 << 0  # noqa: PTH112 - plain strings
                rule = ctypes.create_string_buffer(struct.pack("<Qi", access, descriptor), 12)
                _libc.syscall(445, rules, 1, rule, 0)
                os.close(descriptor)
        _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return int(_libc.syscall(446, rules, 0)) == 0
    finally:
        os.close(rules)


def limit(*, cpu_seconds: int, memory_bytes: int) -> None:
    """Bound processor time and memory of this process; it writes no file and dumps no core."""
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def contain_python(*, cpu_seconds: int, memory_bytes: int, unsafe: bool) -> None:
    """Close the sandbox around this process, for good.

    Raises:
        SandboxUnavailable: If seccomp does not work and `unsafe` was not said.
    """
    libraries = {sys.prefix, sys.base_prefix, "/usr/lib", "/lib", "/lib64", "/usr/lib64", "/etc/ld.so.cache"}
    libraries |= {p for p in sys.path if os.path.isdir(p)}  # noqa: PTH112 - plain strings
    close_files(sorted(libraries))
    limit(cpu_seconds=cpu_seconds, memory_bytes=memory_bytes)
    if not close_calls() and not unsafe:
        msg = "foreign Python cannot be contained here: seccomp filters do not work"
        raise SandboxUnavailable(msg, remedy="use a kernel with seccomp, or --unsafe-exec for code you trust")


@cache
def probe() -> SandboxFacts:
    """Return what works here, tried in a child process."""
    text = (
        "from cuda_harness.tools.execute.sandbox import close_calls; import os, socket\n"
        "ok = close_calls()\n"
        "try:\n    socket.socket()\n    ok = False\nexcept PermissionError:\n    pass\n"
        "os._exit(0 if ok else 1)\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", text], capture_output=True, timeout=30, check=False)
    return SandboxFacts(seccomp=done.returncode == 0, landlock_abi=landlock_abi())
