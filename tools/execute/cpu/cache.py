"""Built files by content: published by an atomic rename and checked on use.

Two processes may build the same thing at once, and a half-written file is never used.
"""

import contextlib
import functools
import hashlib
import os
import secrets
import shutil
import tempfile
from pathlib import Path

from cuda_harness.tools.execute.cpu.compiler import host_compiler

HERE = Path(__file__).resolve().parent
INCLUDE = HERE / "include"
NATIVE = HERE / "native"
PRELUDE = HERE.parent.parent / "toolchain" / "prelude.h"
ABI = "1"
"""Part of every key; raised when the meaning of a cached file changes."""
_KEEP_BYTES = 2 << 30
_TRIM_EVERY = 50
"""One in so many publications looks at the size of the cache."""


class BuildCache:
    """Files by key in the user's cache folder."""

    def __init__(self, root: Path | None = None, *, unsafe: bool = False) -> None:
        """Open or make the cache.

        Args:
            root: Its folder; `None`: the user's cache folder.
            unsafe: Let the compiler read foreign text even where it cannot be contained.
        """
        self.unsafe = unsafe
        base = os.environ.get("XDG_CACHE_HOME")
        default = Path(base) if base else Path.home() / ".cache"
        self.root = (root or default / "cuda-harness") / "cpu"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError:
            self.root = Path(tempfile.gettempdir()) / f"cuda-harness-{os.getuid()}" / "cpu"
            self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.sweep()

    def lookup(self, key: str, name: str) -> Path | None:
        """Return the file when it is there and whole."""
        path, mark = self.root / key / name, self.root / key / f"{name}.sha256"
        try:
            expected = mark.read_text()
            data = path.read_bytes()
        except OSError:
            return None
        if hashlib.sha256(data).hexdigest() != expected:
            with contextlib.suppress(OSError):
                mark.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(self.root / key)
        return path

    def publish(self, key: str, name: str, built: Path) -> Path:
        """Move a finished file into the cache: content first, its checksum last."""
        folder = self.root / key
        folder.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(built.read_bytes()).hexdigest()
        built.replace(folder / name)
        mark = folder / f".{name}.{secrets.token_hex(4)}"
        mark.write_text(digest)
        mark.replace(folder / f"{name}.sha256")
        if secrets.randbelow(_TRIM_EVERY) == 0:
            self.trim()
        return folder / name

    def scratch(self) -> Path:
        """Return a new folder on the same file system, for a build; its name says whose it is."""
        return Path(tempfile.mkdtemp(prefix=f"build-{_place()}-{os.getpid()}-", dir=self.root))

    def sweep(self) -> None:
        """Remove what builders left that were killed; those of other machines and containers are not judged."""
        for folder in self.root.glob(f"build-{_place()}-*-*"):
            owner = folder.name.split("-")[2]
            if owner.isdigit() and not Path("/proc", owner).exists():
                shutil.rmtree(folder, ignore_errors=True)

    def trim(self) -> None:
        """Drop the oldest entries beyond the size bound, and builds that nobody can still be at."""
        entries = []
        for folder in self.root.iterdir():
            with contextlib.suppress(OSError):
                age = folder.stat().st_mtime
                size = sum(f.stat().st_size for f in folder.iterdir())
                entries.append((age, size, folder))
        total = sum(size for _, size, _ in entries)
        newest = max((age for age, _, _ in entries), default=0.0)
        for age, size, folder in sorted(entries):
            building = folder.name.startswith("build-")
            if age >= newest - 3600 if building else total <= _KEEP_BYTES or age == newest:
                continue
            shutil.rmtree(folder, ignore_errors=True)
            total -= size


@functools.cache
def _place() -> str:
    """Return a word for this boot of this machine and this space of process ids: a cache may be shared by several."""
    parts = []
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:8]


@functools.cache
def sources_digest() -> str:
    """Return the identity of our own native sources, headers and prelude, and of what edits a text between compilations."""
    digest = hashlib.sha256(ABI.encode())
    files = [p for folder in (INCLUDE, NATIVE) for p in sorted(folder.rglob("*")) if p.is_file()]
    for path in [
        *files,
        *(HERE / name for name in ("build.py", "cache.py", "casts.py", "compiler.py", "edits.py")),
        *([PRELUDE] if PRELUDE.is_file() else []),
    ]:
        digest.update(str(path.name).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def key_of(*parts: str) -> str:
    """Return a cache key over the parts, the compiler and our sources."""
    compiler = host_compiler()
    text = "\0".join((sources_digest(), compiler.path, compiler.version, *compiler.flags, *parts))
    return hashlib.sha256(text.encode()).hexdigest()[:40]
