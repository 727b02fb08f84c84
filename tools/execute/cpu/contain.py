"""What surrounds foreign work on the CPU: the compiler behind a launcher of ours, and bubblewrap around both where it works.

The launcher (native/contain.cpp) closes Landlock and seccomp and bounds the process before g++ reads a foreign
text; the runner (native/runner.cpp) closes its own, narrower sandbox. Bubblewrap adds namespaces to either.
"""

import functools
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cuda_harness.tools.process import ProgramMissing, run

SYSTEM_READABLE = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache")
_TOOLS_READABLE = (
    "/bin", "/usr/bin", "/usr/libexec", "/usr/include", "/usr/local/include", "/usr/local/lib", "/usr/x86_64-linux-gnu",
    "/etc/alternatives", "/dev/urandom",
)  # fmt: skip
COMPILE_MEMORY = 4 << 30
"""Bytes of address space of each part of the compiler."""
COMPILE_FILE = 512 << 20
"""Bytes of each file that it writes."""
NO_SECCOMP = 97
"""Exit code of the launcher where foreign code cannot be contained."""


@dataclass(frozen=True)
class Bounds:
    """What one compilation may take."""

    readable: tuple[Path, ...]
    """Files and folders beside the system's and the compiler's own."""
    folder: Path
    """The only place to write."""
    cpu_s: int
    """Processor seconds of each part of the compiler."""


def compile_argv(launcher: Path, argv: Sequence[str], bounds: Bounds, *, unsafe: bool) -> list[str]:
    """Return the command that runs a compiler contained.

    Args:
        launcher: The built `contain` program.
        argv: The compiler, by its full path, and its arguments.
        bounds: What it may read, write and take.
        unsafe: Go on where neither seccomp nor bubblewrap works.
    """
    own = Path(argv[0]).resolve().parent.parent  # a compiler that lies elsewhere brings its parts with it
    readable = [*SYSTEM_READABLE, *_TOOLS_READABLE, *map(str, bounds.readable)]
    if own not in {Path("/"), Path("/usr")}:
        readable.append(str(own))
    listed = [a for path in readable for a in ("-r", path)]
    limits = [
        str(int(unsafe or bubblewrap() is not None)),
        str(bounds.cpu_s),
        str(COMPILE_MEMORY),
        str(COMPILE_FILE),
    ]
    command = [str(launcher), *limits, *listed, "-w", str(bounds.folder), "-w", "/dev/null", "--", *argv]
    return [*bubblewrapped([*readable, str(launcher)], writable=bounds.folder), *command]


def bubblewrapped(readable: Sequence[str], *, writable: Path | None = None) -> list[str]:
    """Return what to put before a command so that bubblewrap runs it, nothing where that does not work."""
    program = bubblewrap()
    if program is None:
        return []
    binds = [a for path in dict.fromkeys(readable) for a in ("--ro-bind-try", path, path)]
    if writable is not None:
        binds += ["--bind", str(writable), str(writable), "--chdir", str(writable)]
    return [program, *_NAMESPACES, "--dev", "/dev", *binds, "--"]


_NAMESPACES = ("--unshare-all", "--die-with-parent", "--cap-drop", "ALL")


@functools.cache
def bubblewrap() -> str | None:
    """Return the bubblewrap of this machine, tried for real; `None` where it is absent or may not make namespaces."""
    program = shutil.which("bwrap")
    if program is None:
        return None
    binds = [a for path in (*SYSTEM_READABLE, "/bin", "/usr/bin") for a in ("--ro-bind-try", path, path)]
    try:
        done = run([program, *_NAMESPACES, "--dev", "/dev", *binds, "--", "/bin/true"], timeout_s=10)
    except ProgramMissing:
        return None
    return program if done.ok else None


def compiler_environment(compiler: str, folder: Path) -> dict[str, str]:
    """Return the whole environment of a compilation: nothing of the user's but where libraries of a compiler lie."""
    made = {"PATH": f"{Path(compiler).parent}:/usr/bin:/bin", "TMPDIR": str(folder), "LC_ALL": "C"}
    libraries = os.environ.get("LD_LIBRARY_PATH")
    return {**made, "LD_LIBRARY_PATH": libraries} if libraries else made
