"""The parent's side of one GPU child: start, private channel, deadlines, and the end of its whole process group."""

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

from cuda_harness.tools.frames import Blob, read_frame, write_frame

PASSED = (
    "PATH", "HOME", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_HOME", "CUDA_PATH",
    "CUDA_MPS_PIPE_DIRECTORY", "LANG", "PYTHONPATH", "TMPDIR", "XDG_CACHE_HOME",
)  # fmt: skip
"""Variables a child gets; keys and settings of the user stay behind."""
CHILD_MODULE = "cuda_harness.tools.execute.cuda.child"
_PIPE_BYTES = 1 << 20
_KEPT = 4096
"""Bytes kept of the head and of the tail of a child's stderr; a failed device assertion prints from every thread."""

Frame = tuple[dict[str, Any], list[bytes]]
Request = tuple[dict[str, Any], list[Blob]]
Command = Callable[[int, int], Sequence[str]]
"""Descriptors to read and to write -> argv of a child."""


def child_command(device: int) -> Command:
    """Return how the GPU child of a device is started."""

    def argv(fd_in: int, fd_out: int) -> Sequence[str]:
        return [sys.executable, "-P", "-m", CHILD_MODULE, str(device), str(fd_in), str(fd_out)]

    return argv


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a GPU child."""
    return {**{k: v for k in PASSED if (v := os.environ.get(k)) is not None}, **(extra or {})}


class Worker:
    """One child and its private channel."""

    def __init__(self, command: Command, environment: Mapping[str, str] | None = None) -> None:
        job_read, job_write = os.pipe()
        answer_read, answer_write = os.pipe()
        for descriptor in (job_write, answer_read):
            with contextlib.suppress(OSError):  # beyond the user's limit: the pipe stays small
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        try:
            self.process = subprocess.Popen(
                list(command(job_read, answer_write)), pass_fds=(job_read, answer_write), start_new_session=True,
                env=child_environment(environment), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )  # fmt: skip
        finally:
            os.close(job_read)
            os.close(answer_write)
        self._jobs: BinaryIO = os.fdopen(job_write, "wb")
        self._answers: BinaryIO = os.fdopen(answer_read, "rb", buffering=0)
        self._head, self._tail = bytearray(), bytearray()
        # A full stderr pipe would stop the child in the middle of its answer: it is always emptied.
        self._drain = threading.Thread(target=self._keep_stderr, daemon=True)
        self._drain.start()
        self.ready: dict[str, Any] | None = None
        """What the device says of itself, once the child is ready."""
        self.starting = threading.Lock()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self.process.pid

    def _keep_stderr(self) -> None:
        assert self.process.stderr is not None  # noqa: S101 - a pipe
        with contextlib.suppress(OSError, ValueError):
            while data := os.read(self.process.stderr.fileno(), 1 << 16):
                room = _KEPT - len(self._head)
                self._head += data[: max(0, room)]
                self._tail = (self._tail + data[max(0, room) :])[-_KEPT:]

    def stderr(self) -> str:
        """Return head and tail of what the child has said on stderr so far."""
        return (bytes(self._head) + bytes(self._tail)).decode("utf-8", "replace")

    def send(self, header: dict[str, Any], blobs: Sequence[Blob]) -> None:
        """Send a frame from a thread of its own: a child that does not read does not hold the caller."""

        def write() -> None:
            with contextlib.suppress(OSError, ValueError):  # a child that died answers by its death
                write_frame(self._jobs, header, blobs)

        threading.Thread(target=write, daemon=True).start()

    def receive(self, deadline: float, max_bytes: int, *cancel: threading.Event | None) -> Frame | None:
        """Return the next frame, `None` at the deadline (monotonic seconds) or when any of the events is set.

        Raises:
            EOFError: If the child died, or its frame is broken.
        """
        while not self.has_answer(0.05):
            if time.monotonic() >= deadline or any(e.is_set() for e in cancel if e):
                return None
        box: list[
            Any
        ] = []  # past the first byte the child is only copying; a thread still keeps the deadline

        def read() -> None:
            try:
                box.append(read_frame(self._answers, max_bytes=max_bytes))
            except (EOFError, ValueError, OSError) as exc:
                box.append(exc)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        patience = max(5.0, deadline - time.monotonic() + 5.0) + max_bytes / 100e6
        reader.join(patience)
        if not box:
            return None
        if isinstance(box[0], BaseException):
            raise EOFError(str(box[0]))
        found: Frame = box[0]
        return found

    def has_answer(self, wait_s: float) -> bool:
        """Return whether a frame begins to arrive within so many seconds; raises EOFError when the channel is closed."""
        try:
            return bool(select.select([self._answers], [], [], wait_s)[0])
        except (OSError, ValueError) as exc:  # another thread has ended the child and closed its channel
            raise EOFError(str(exc)) from exc

    def kill(self) -> str:
        """End the whole process group, reap it and return what it said on stderr; idempotent."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=15)
        self._drain.join(1.0)
        for stream in (self._answers, self._jobs, self.process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError, ValueError):
                    stream.close()
        return self.stderr()

    @property
    def is_up(self) -> bool:
        """Whether the child has said that it is ready, or why it is not."""
        with contextlib.suppress(EOFError):
            return self.ready is not None or self.has_answer(0.0)
        return False

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self.process.poll() is None
