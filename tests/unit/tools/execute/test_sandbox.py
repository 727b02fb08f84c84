"""What foreign Python may ask of the system, tried in a real child."""

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from cuda_harness.tools.execute import sandbox

pytestmark = pytest.mark.skipif(not sandbox.probe().contains, reason="seccomp filters do not work here")

_HEAD = """
import ctypes, os, socket, sys, threading
from cuda_harness.tools.execute.sandbox import contain_python
contain_python(cpu_seconds=20, memory_bytes=4 << 30, unsafe=False)
"""


def contained(body: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `body` behind the sandbox; it prints `done` when nothing stopped it."""
    text = _HEAD + body + "\nprint('done')\n"
    return subprocess.run(
        [sys.executable, "-P", "-c", text, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


REFUSED = {
    "socket": "socket.socket()",
    "unix socket": "socket.socket(socket.AF_UNIX)",
    "socket pair": "socket.socketpair()",
    "fork": "os.fork()",
    "exec": "os.execv('/bin/true', ['true'])",
    "thread": "threading.Thread(target=print).start()",
    "kill": "os.kill(os.getppid(), 0)",
    "write a file": "open(sys.argv[1], 'w')",
    "append to a file": "open(sys.argv[1], 'a')",
    "truncate on open": "os.open(sys.argv[1], os.O_RDONLY | os.O_TRUNC)",
    "create on open": "os.open(sys.argv[1] + '.new', os.O_RDONLY | os.O_CREAT)",
    "make a folder": "os.mkdir(sys.argv[1] + '.d')",
    "remove": "os.remove(sys.argv[1])",
    "rename": "os.rename(sys.argv[1], sys.argv[1] + '.old')",
    "change mode": "os.chmod(sys.argv[1], 0o777)",
    "limits of another": "__import__('resource').prlimit(os.getppid(), 7, (1, 1))",
    "change user": "os.setuid(os.getuid())",
    "memfd": "os.memfd_create('x')",
    "pipe": "os.pipe()",
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED.keys())
def test_a_call_beyond_computing_is_refused(body: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")

    done = contained(body, str(victim))

    assert "done" not in done.stdout
    assert "PermissionError" in done.stderr or "RuntimeError" in done.stderr, done.stderr
    assert victim.read_text() == "kept"
    assert [p.name for p in tmp_path.iterdir()] == ["victim"]


@pytest.mark.parametrize(
    "name", ["ptrace", "mount", "unshare", "io_uring_setup", "bpf", "process_vm_writev", "keyctl"]
)
def test_a_raw_system_call_is_refused(name: str) -> None:
    numbers = {
        "x86_64": {"ptrace": 101, "mount": 165, "unshare": 272, "io_uring_setup": 425, "bpf": 321,
                   "process_vm_writev": 311, "keyctl": 250},
        "aarch64": {"ptrace": 117, "mount": 40, "unshare": 97, "io_uring_setup": 425, "bpf": 280,
                    "process_vm_writev": 271, "keyctl": 219},
    }[os.uname().machine]  # fmt: skip
    body = (
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        f"assert libc.syscall({numbers[name]}, 0, 0, 0, 0, 0) == -1\n"
        "assert ctypes.get_errno() == 1, ctypes.get_errno()"
    )

    assert contained(body).stdout == "done\n"


def test_no_signal_by_fcntl_and_no_terminal_control() -> None:
    body = (
        "import fcntl, termios\n"
        "for call in (lambda: fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid()), lambda: fcntl.ioctl(1, termios.TIOCSTI, b'x')):\n"
        "    try:\n        call()\n        sys.exit('passed')\n    except PermissionError:\n        pass"
    )

    assert contained(body).stdout == "done\n"


def test_computing_reading_libraries_and_the_clock_still_work() -> None:
    body = (
        "os.environ['OPENBLAS_NUM_THREADS'] = '1'  # as the warm process does: no threads behind the sandbox\n"
        "import time, random, decimal, fractions\nimport numpy as np\n"
        "assert (np.ones((50, 50)) @ np.ones((50, 50))).sum() == 125000\ntime.sleep(0.001); time.monotonic(); random.random()"
    )

    done = contained(body)

    assert done.stdout == "done\n", done.stderr


def test_a_file_outside_the_libraries_is_not_read(tmp_path: Path) -> None:
    if sandbox.landlock_abi() is None:
        pytest.skip("this kernel has no Landlock")
    secret = tmp_path / "secret"
    secret.write_text("key")

    for path in (secret, Path("/proc/self/environ"), Path("/etc/passwd")):
        assert "PermissionError" in contained("open(sys.argv[1]).read()", str(path)).stderr


def test_memory_is_bounded() -> None:
    assert "MemoryError" in contained("x = bytearray(5 << 30)").stderr


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_program_is_well_formed(machine: str) -> None:
    program = sandbox.seccomp_program(machine)
    length = len(program) // 8

    assert len(program) % 8 == 0
    assert length < 4096, "the kernel takes no longer one"
    for at in range(length):
        code, yes, no, _ = struct.unpack_from("<HBBI", program, 8 * at)
        if code & 7 == 5:
            assert at + 1 + max(yes, no) < length, "a jump leaves the program"
    assert struct.unpack_from("<HBBI", program, 8 * (length - 1))[0] == 0x06, "the end is no return"
