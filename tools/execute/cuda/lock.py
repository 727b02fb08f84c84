"""One lock per GPU, by UUID: checks share it, timing has it alone; the kernel frees it when its owner dies.

Whoever wants the GPU alone closes a gate behind the checks that run, so that a stream of them cannot keep it waiting for
ever. Checks let all measurements pass that wait already: one wait for the running checks then serves them all.
"""

import contextlib
import errno
import fcntl
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_POLL_S = 0.02
_YIELDS_S = 15.0
"""Most seconds that a check lets measurements pass, which come one after the other where many candidates are timed."""


class LockTimeout(Exception):  # noqa: N818 - names a condition the caller turns into an answer
    """Another process held the GPU for the whole time."""

    def __init__(self, uuid: str, seconds: float, holder: str) -> None:
        told = f" by process {holder}" if holder else ""
        super().__init__(f"GPU {uuid} is held{told}; waited {seconds:.0f} s")


@dataclass(frozen=True)
class Held:
    """A lock that was taken."""

    waited_s: float


def lock_folder() -> Path:
    """Return the folder of this user's GPU locks, made when missing; in the temporary folder where home is read-only."""
    base = os.environ.get("XDG_CACHE_HOME")
    root = Path(base) if base else Path.home() / ".cache"
    folder = root / "cuda-harness" / "locks"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = Path(tempfile.gettempdir()) / f"cuda-harness-locks-{os.getuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise
    return folder


def _path(uuid: str, kind: str, folder: Path | None) -> Path:
    return (folder or lock_folder()) / f"gpu-{re.sub(r'[^A-Za-z0-9-]', '_', uuid)[:80]}.{kind}"


@contextlib.contextmanager
def device_lock(uuid: str, *, exclusive: bool, timeout_s: float, folder: Path | None = None) -> Iterator[Held]:  # fmt: skip
    """Hold the lock of a GPU.

    Args:
        uuid: The GPU's (or MIG instance's) UUID.
        exclusive: Alone, for timing; else shared with other checks.
        timeout_s: Seconds to wait.
        folder: Where lock files lie; `None`: the user's cache folder.

    Yields:
        How long it waited.

    Raises:
        LockTimeout: If it was not free in time.
    """
    began = time.monotonic()
    until = began + timeout_s
    mode = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    with contextlib.ExitStack() as stack:
        timers = stack.enter_context(_opened(_path(uuid, "timers", folder)))
        if exclusive:
            _taken(timers, fcntl.LOCK_SH, until)  # seen by checks until this measurement is over
        else:
            _let_pass(timers, min(until, began + _YIELDS_S))
        gate = stack.enter_context(_opened(_path(uuid, "gate", folder)))
        main = stack.enter_context(_opened(_path(uuid, "lock", folder)))
        for descriptor in (gate, main):
            if not _taken(descriptor, mode, until):
                raise LockTimeout(uuid, timeout_s, _holder(main))
        if exclusive:
            os.ftruncate(main, 0)
            os.pwrite(main, str(os.getpid()).encode(), 0)
        fcntl.flock(gate, fcntl.LOCK_UN)
        try:
            yield Held(time.monotonic() - began)
        finally:
            if exclusive:
                os.ftruncate(main, 0)


class Lease:
    """The lock as a child keeps it: checks that follow one another share one turn, instead of queueing for each.

    Between two runs of a program on one GPU, each short check would else wait for a whole measurement of the other's.
    """

    def __init__(self, uuid: str, *, most_s: float = 4.0, folder: Path | None = None) -> None:
        """Hold nothing yet.

        Args:
            uuid: The GPU's UUID.
            most_s: Seconds after which a turn ends and the next check queues again.
            folder: As for `device_lock`.
        """
        self.uuid, self._most_s, self._folder = uuid, most_s, folder
        self._turn: contextlib.ExitStack | None = None
        self._began = 0.0

    @contextlib.contextmanager
    def held(self, *, exclusive: bool, timeout_s: float) -> Iterator[Held]:
        """Hold the lock for a job; a shared one stays held until `release`, or until its turn is over.

        Raises:
            LockTimeout: If it was not free in time.
        """
        if exclusive or time.monotonic() - self._began > self._most_s:
            self.release()
        if exclusive:
            with device_lock(self.uuid, exclusive=True, timeout_s=timeout_s, folder=self._folder) as held:
                yield held
            return
        held = Held(0.0)
        if self._turn is None:
            with contextlib.ExitStack() as stack:
                held = stack.enter_context(
                    device_lock(self.uuid, exclusive=False, timeout_s=timeout_s, folder=self._folder)
                )
                self._turn, self._began = stack.pop_all(), time.monotonic()
        yield held

    def release(self) -> None:
        """End the turn; idempotent."""
        if self._turn is not None:
            self._turn.close()
            self._turn = None

    @property
    def is_held(self) -> bool:
        """Whether a turn of checks goes on."""
        return self._turn is not None


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _taken(descriptor: int, mode: int, until: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, mode | fcntl.LOCK_NB)
        except OSError as exc:
            if exc.errno not in {errno.EWOULDBLOCK, errno.EAGAIN, errno.EINTR}:
                raise
        else:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(_POLL_S)


def _let_pass(timers: int, until: float) -> None:
    """Wait until nobody waits for the GPU alone, or has it, or the time is over."""
    if _taken(timers, fcntl.LOCK_EX, until):
        fcntl.flock(timers, fcntl.LOCK_UN)


def _holder(descriptor: int) -> str:
    text = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip()
    return text if text.isdecimal() and Path(f"/proc/{text}").exists() else ""


def is_busy(uuid: str, *, folder: Path | None = None) -> bool:
    """Return whether somebody holds the GPU's lock now, shared or alone."""
    with _opened(_path(uuid, "lock", folder)) as descriptor:
        return not _taken(descriptor, fcntl.LOCK_EX, 0.0)


@contextlib.contextmanager
def choosing(*, folder: Path | None = None) -> Iterator[None]:
    """Hold off other runs of this user that choose a GPU, for the moment of the choice."""
    with _opened((folder or lock_folder()) / "choosing.lock") as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


class Claim:
    """A standing note that a run uses a GPU, for those who choose one; gone when its process is."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor

    def release(self) -> None:
        """Take the note away; idempotent."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                self.path.unlink()
            os.close(self._descriptor)
            self._descriptor = -1


def claim(uuid: str, *, folder: Path | None = None) -> Claim:
    """Note that this run uses a GPU."""
    number = 0
    while True:
        path = _path(uuid, f"{os.getpid()}-{number}.user", folder)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            number += 1
            continue
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return Claim(path, descriptor)


def claims(uuid: str, *, folder: Path | None = None) -> int:
    """Return how many living runs use a GPU; notes of dead ones are swept away."""
    pattern = _path(uuid, "", folder)
    living = 0
    for path in pattern.parent.glob(f"{pattern.name}*.user"):
        with contextlib.suppress(FileNotFoundError), _opened(path) as descriptor:
            if _taken(descriptor, fcntl.LOCK_EX, 0.0):
                path.unlink(missing_ok=True)
            else:
                living += 1
    return living
