"""Foreign programs that write files, contained: one writable folder, a few readable ones, no network.

The stricter sandbox of `tools.execute` lets nothing be written and no program be started; the programs of a benchmark
must do both, and may talk to a GPU's driver. Files are closed by Landlock, so what is expected of a program is out
of its reach; a seccomp filter refuses sockets beyond the machine and the ways into other processes.
"""

import ctypes
import json
import os
import platform
import resource
import struct
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from cuda_harness.state.errors import SandboxUnavailable
from cuda_harness.tools.process import Finished, allowed_environment, run

_SYSTEM = (
    "/usr", "/lib", "/lib64", "/bin", "/opt", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
    "/etc/OpenCL", "/sys", "/proc/self", "/proc/driver", "/proc/devices", "/proc/modules", "/proc/cpuinfo", "/proc/meminfo",
    "/proc/stat", "/proc/sys/vm", "/proc/sys/kernel", "/proc/version", "/proc/filesystems",
)  # fmt: skip
"""Readable: programs, libraries, and what a GPU's driver looks at; of /proc only what tells nothing of other processes."""
_DEVICES = ("nvidia*", "nvidia-caps", "dxg", "shm", "zero")
"""Under /dev, readable and writable where a GPU is needed: its own device files and no disk."""
_FILE_BYTES = 4 << 30
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_DENIED = {
    "x86_64": (101, 134, 155, 161, 163, 165, 166, 167, 169, 175, 246, 272, 298, 304, 308, 310, 311, 313, 320, 321, 323, 425, 428, 429, 430, 431, 432, 442),
    "aarch64": (117, 39, 40, 41, 51, 89, 97, 104, 105, 106, 142, 217, 218, 219, 224, 225, 241, 268, 270, 271, 273, 280, 282, 294, 425, 428, 429, 430, 431, 432, 442),
}  # fmt: skip
"""ptrace, mounts, name spaces, modules, kexec, perf, bpf, keys, io_uring, memory of other processes."""
_SOCKET = {"x86_64": 41, "aarch64": 198}
_libc = ctypes.CDLL(None, use_errno=True)


def run_contained(
    argv: Sequence[str],
    *,
    folder: Path,
    timeout_s: float,
    readable: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
    cpu_seconds: int | None = None,
    unsafe: bool = False,
    gpu: bool = False,
) -> Finished:
    """Run a program that sees and writes only `folder`, and return how it ended.

    Args:
        argv: Program and arguments.
        folder: Working folder, the only place that it may write to.
        timeout_s: Wall seconds; then its whole group is killed.
        readable: Further files and folders it may read.
        environment: Variables beyond the few that every tool gets.
        cpu_seconds: Processor time; `None`: twice the wall seconds a core.
        unsafe: Run it also where it cannot be contained.
        gpu: It may open device files.

    Raises:
        SandboxUnavailable: If this machine cannot contain it, and `unsafe` was not said.
        ProgramMissing: If it does not start.
    """
    if not unsafe and not contains():
        msg = "a benchmark's programs cannot be contained here: Landlock or seccomp does not work"
        raise SandboxUnavailable(
            msg, remedy="use a kernel with Landlock, or --unsafe-exec for code you trust"
        )
    cores = len(os.sched_getaffinity(0))
    order = {
        "writable": [str(folder.resolve()), "/dev/null", *(_gpu_files() if gpu else ())],
        "readable": [*_SYSTEM, *_interpreter(), *(str(p.resolve()) for p in readable), "/dev/urandom"],
        "cpu": cpu_seconds or int(2 * timeout_s * cores) + 1, "unsafe": unsafe,
    }  # fmt: skip
    whole = [sys.executable, "-P", "-m", "cuda_harness.tools.benchmarks.contain", json.dumps(order), *argv]
    env = {
        **allowed_environment(dict(environment or {})),
        "HOME": str(folder.resolve()),
        "TMPDIR": str(folder.resolve()),
    }
    return run(whole, timeout_s=timeout_s, cwd=folder, env=env)


def _gpu_files() -> list[str]:
    return sorted({str(p) for name in _DEVICES for p in Path("/dev").glob(name)})


def _interpreter() -> list[str]:
    found = {sys.prefix, sys.base_prefix, *(p for p in sys.path if p and Path(p).is_dir())}
    return sorted(found)


def _filter() -> bytes:
    """Return a seccomp program: the denied calls fail with EPERM, and so does every socket but a local one."""
    machine = platform.machine()
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    allow, eperm, kill = 0x7FFF0000, 0x00050001, 0x80000000
    code = [
        (load, 0, 0, 4),
        (equal, 1, 0, _AUDIT[machine]),
        (give, 0, 0, kill),
        (load, 0, 0, 0),
        (at_least, 0, 1, 0x40000000),  # numbers of the x32 table
        (give, 0, 0, kill),
    ]
    for number in _DENIED[machine]:
        code += [(equal, 0, 1, number), (give, 0, 0, eperm)]
    code += [(equal, 0, 3, _SOCKET[machine]), (load, 0, 0, 16), (equal, 1, 0, 1), (give, 0, 0, eperm)]
    code.append((give, 0, 0, allow))
    return b"".join(struct.pack("<HBBI", *c) for c in code)


def _close(writable: Sequence[str], readable: Sequence[str]) -> bool:
    """Close files and calls for this process, for good; return whether both hold."""
    machine = platform.machine()
    abi = int(_libc.syscall(444, None, 0, 1))
    if machine not in _AUDIT or abi < 1:
        return False
    every = (1 << 13) - 1 | (abi >= 2) << 13 | (abi >= 3) << 14 | (abi >= 5) << 15
    fields = [every] + [3] * (abi >= 4) + [3] * (abi >= 6)
    head = ctypes.create_string_buffer(struct.pack(f"<{len(fields)}Q", *fields), 8 * len(fields))
    rules = int(_libc.syscall(444, head, 8 * len(fields), 0))
    if rules < 0:
        return False
    reading = 1 << 0 | 1 << 2 | 1 << 3  # execute, read a file, list a folder
    for paths, rights in ((readable, reading), (writable, every)):
        for path in paths:
            try:
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            of_file = 1 << 0 | 1 << 1 | 1 << 2 | (abi >= 3) << 14 | (abi >= 5) << 15
            access = rights if os.path.isdir(path) else rights & of_file  # noqa: PTH112 - plain strings
            rule = ctypes.create_string_buffer(struct.pack("<Qi", access, descriptor), 12)
            _libc.syscall(445, rules, 1, rule, 0)
            os.close(descriptor)
    _libc.prctl(38, 1, 0, 0, 0)
    if int(_libc.syscall(446, rules, 0)) != 0:
        return False
    os.close(rules)
    program = _filter()
    holder = ctypes.create_string_buffer(program, len(program))
    order = ctypes.create_string_buffer(
        struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(holder)), 16
    )
    return int(_libc.syscall({"x86_64": 317, "aarch64": 277}[machine], 1, 0, order)) == 0


@cache
def contains() -> bool:
    """Return whether programs can be contained here, tried in a child process."""
    probe = (
        "import socket, sys\nfrom cuda_harness.tools.benchmarks.contain import _close\n"
        "ok = _close([], ['/usr', '/lib', '/lib64', *sys.path])\n"
        "try:\n    socket.socket()\n    ok = False\nexcept PermissionError:\n    pass\n"
        "try:\n    open('/etc/passwd')\n    ok = False\nexcept PermissionError:\n    pass\n"
        "import os\nos._exit(0 if ok else 1)\n"
    )
    done = run([sys.executable, "-P", "-c", probe], timeout_s=60)
    return done.ok


def main() -> None:
    """Close this process as the first argument says and become the program in the rest."""
    order = json.loads(sys.argv[1])
    argv = sys.argv[2:]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_FILE_BYTES, _FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (order["cpu"], order["cpu"] + 1))
    if not _close(order["writable"], order["readable"]) and not order["unsafe"]:
        os._exit(126)
    try:
        os.execv(argv[0], argv)  # noqa: S606 - no shell, the program is the caller's
    except OSError as exc:
        sys.stderr.write(f"cannot start {argv[0]!r}: {exc.strerror}\n")
        os._exit(127)


if __name__ == "__main__":
    main()
