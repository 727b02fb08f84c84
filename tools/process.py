"""Child processes: own process group, deadline on the whole group, bounded output, no orphans."""

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

MAX_OUTPUT = 1 << 20
"""Bytes kept of each stream: the head and the tail."""
_FULL = 0.9
"""Share of its time for which a program that was ended must have run, to be the one at fault."""
_TICK_S, _REAPED_S = 0.05, 0.0005
"""Seconds between looks at deadline and cancellation; and the first of them once a child has closed its pipes."""
PARENT = "CUDA_HARNESS_PARENT"
"""Variable with the process id of whoever starts a native program of ours (tools/execute/cpu/native/closing.h)."""
_PR_SET_PDEATHSIG = 1
_PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "XDG_CACHE_HOME", "PYTHONPATH")
_libc = ctypes.CDLL(None, use_errno=True)
_FORKS = ThreadPoolExecutor(1, thread_name_prefix="forks")
"""Starts what is to outlive the thread that asks for it."""


class ProgramMissing(Exception):  # noqa: N818 - names a condition
    """The program is not installed or does not start here; the caller knows the remedy."""


@dataclass(frozen=True)
class Finished:
    """How a child ended."""

    status: Literal["exited", "timed_out", "cancelled"]
    returncode: int | None
    """Exit code, negative for a signal; `None` when we ended it."""
    stdout: bytes
    stderr: bytes
    seconds: float
    starved: bool = False
    """Whether its time was over on a machine so busy that it hardly ran."""

    @property
    def ok(self) -> bool:
        """Whether it exited with 0."""
        return self.status == "exited" and self.returncode == 0

    def text(self) -> str:
        """Return stderr, else stdout, as text for a message."""
        return (self.stderr or self.stdout).decode("utf-8", "replace")


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent thread ends; runs in the child between fork and exec."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def allowed_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the few variables a tool needs; keys and settings of the user stay behind."""
    return {**{k: v for k in _PASSED if (v := os.environ.get(k)) is not None}, **(extra or {})}


def lasting(start: Callable[[], "subprocess.Popen[bytes]"]) -> "subprocess.Popen[bytes]":
    """Start a process that `die_with_parent` ends with this process, not with the calling thread.

    To the kernel the parent is the thread that forked: one of ours does so for all, and lasts as long as the program.
    """
    return _FORKS.submit(start).result()


def kill_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill the child's whole group, grandchildren included, and reap the child."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)


class _Kept:
    """Head and tail of a stream."""

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._head, self._tail = bytearray(), bytearray()
        self._lost = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        excess = len(self._tail) - self._half
        if excess > 0:
            del self._tail[:excess]
            self._lost += excess

    def value(self) -> bytes:
        middle = b"\n[... %d bytes left out ...]\n" % self._lost if self._lost else b""
        return bytes(self._head) + middle + bytes(self._tail)


def run(
    argv: Sequence[str | Path],
    *,
    timeout_s: float,
    stdin: bytes | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    max_output: int = MAX_OUTPUT,
    cancel: Sequence[threading.Event] = (),
    pass_fds: Sequence[int] = (),
    patience: float = 1.0,
    ends_itself: bool = False,
) -> Finished:
    """Run a program to its end, its deadline or a cancellation; its output is read while it lives.

    Args:
        argv: Program and arguments; no shell is involved.
        timeout_s: Wall seconds; then the whole process group is killed.
        stdin: Bytes for its standard input; `None`: empty.
        cwd: Working folder.
        env: The whole environment; `None`: `allowed_environment()`.
        max_output: Bytes kept of stdout and of stderr.
        cancel: When one of them is set, the group is killed at once.
        pass_fds: Descriptors the child inherits.
        patience: How many times `timeout_s` may pass for a program that wants to run and had less processor time than
            that: a busy machine is not the program's fault. 1: none.
        ends_itself: The program asks the kernel itself to be ended with us, as our native ones do when `PARENT` tells
            them who we are. Nothing runs between fork and exec then, and no page of this process is copied.

    Raises:
        ProgramMissing: If the program does not exist or does not start; the caller knows the remedy.
    """
    began = time.monotonic()
    environment = dict(env) if env is not None else allowed_environment()
    if ends_itself:
        environment[PARENT] = str(os.getpid())
    try:
        process = subprocess.Popen(
            [str(a) for a in argv],
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=environment,
            start_new_session=True,
            pass_fds=tuple(pass_fds),
            preexec_fn=None if ends_itself else die_with_parent,
        )
    except OSError as exc:  # absent, not executable, of another machine
        msg = f"cannot start {str(argv[0])!r}: {exc.strerror}"
        raise ProgramMissing(msg) from exc
    out, err = _Kept(max_output), _Kept(max_output)
    status: Literal["exited", "timed_out", "cancelled", "starved"]
    try:
        status = _pump(process, out, err, stdin or b"", began, timeout_s, patience, cancel)
    finally:
        kill_group(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
    code = process.returncode if status == "exited" else None
    told: Literal["exited", "timed_out", "cancelled"] = "timed_out" if status == "starved" else status
    return Finished(told, code, out.value(), err.value(), time.monotonic() - began, status == "starved")


def processor_seconds(pid: int) -> float | None:
    """Return the processor time of a living process and its threads in s, `None` where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def _wants_to_run(pid: int) -> bool:
    """Return whether a thread of a process is running or waits for a processor, rather than sleeping."""
    try:
        return any(
            (task / "stat").read_text().rpartition(")")[2].split()[0] == "R"
            for task in Path(f"/proc/{pid}/task").iterdir()
        )
    except (OSError, IndexError):
        return False


def _pump(
    process: "subprocess.Popen[bytes]",
    out: _Kept,
    err: _Kept,
    stdin: bytes,
    began: float,
    timeout_s: float,
    patience: float,
    cancel: Sequence[threading.Event],
) -> Literal["exited", "timed_out", "cancelled", "starved"]:
    """Move bytes until the child has ended; a grandchild that keeps a pipe open does not hold us."""
    deadline = began + timeout_s
    with selectors.DefaultSelector() as selector:
        for stream, kept in ((process.stdout, out), (process.stderr, err)):
            assert stream is not None  # noqa: S101 - both are pipes
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, kept)
        pending, tick = memoryview(stdin), _REAPED_S
        if process.stdin is not None:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE, None)
        while True:
            if any(event.is_set() for event in cancel):
                return "cancelled"
            if time.monotonic() >= deadline:
                had = processor_seconds(process.pid)
                busy = had is not None and had < timeout_s * _FULL and _wants_to_run(process.pid)
                if not busy or patience <= 1:
                    return "timed_out"
                if deadline - began >= timeout_s * patience:
                    return "starved"
                deadline += timeout_s / 4
            # Both pipes close a moment before the child can be reaped, and nothing wakes us then.
            wait = _TICK_S if selector.get_map() else tick
            tick = _REAPED_S if selector.get_map() else min(_TICK_S, 2 * tick)
            for key, _ in selector.select(min(wait, max(0.0, deadline - time.monotonic()))):
                if key.data is None:
                    try:
                        pending = pending[os.write(key.fd, pending[:65_536]) :]
                    except OSError:
                        pending = pending[:0]
                    if not pending:
                        selector.unregister(key.fileobj)
                        process.stdin.close()  # type: ignore[union-attr]
                    continue
                try:
                    data = os.read(key.fd, 65_536)
                except BlockingIOError:
                    continue
                if data:
                    key.data.add(data)
                else:
                    selector.unregister(key.fileobj)
            if process.poll() is not None:
                _drain(selector)
                return "exited"


def _drain(selector: selectors.BaseSelector) -> None:
    """Take what an ended child left in its pipes, without waiting for anyone who holds them open."""
    while True:
        moved = False
        for key, _ in selector.select(0):
            if key.data is None:
                selector.unregister(key.fileobj)
                continue
            try:
                data = os.read(key.fd, 65_536)
            except BlockingIOError:
                continue
            if data:
                key.data.add(data)
                moved = True
            else:
                selector.unregister(key.fileobj)
        if not moved:
            return
