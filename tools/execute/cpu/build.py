"""The host toolchain of the CPU executor: runner, precompiled header, kernels; built once, cached by content.

Everything is published by an atomic rename and checked on use, so two processes may build the same thing at
once, and a half-written file is never used.
"""

import contextlib
import functools
import hashlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cuda_harness.state.errors import ExecutorUnavailable, SandboxUnavailable
from cuda_harness.tools.execute.cpu.casts import has_errors
from cuda_harness.tools.execute.cpu.contain import (
    NO_SECCOMP,
    Bounds,
    bubblewrap,
    compile_argv,
    compiler_environment,
)
from cuda_harness.tools.process import Finished, ProgramMissing, run

HERE = Path(__file__).resolve().parent
INCLUDE = HERE / "include"
NATIVE = HERE / "native"
PRELUDE = HERE.parent.parent / "toolchain" / "prelude.h"
ABI = "1"
"""Part of every key; raised when the meaning of a cached file changes."""
Mode = Literal["plain", "check"]
_REMEDY = "install it, for example: apt-get install g++ (or use --executor cuda on a GPU machine)"
_KEEP_BYTES = 2 << 30
_TRIM_EVERY = 50
"""One in so many publications looks at the size of the cache."""
KERNEL_CPU_S = 15
"""Processor seconds that a kernel's compilation may take; a typical one takes half a second."""
_OWN_CPU_S = 120


@dataclass(frozen=True)
class HostCompiler:
    """A g++ that was tried."""

    path: str
    version: str
    flags: tuple[str, ...]
    """CPU features: fused multiply-add and half conversions where the host has them, as nvcc contracts by default."""

    @property
    def speaks_json(self) -> bool:
        """Whether diagnostics come as JSON; versions from 16 on have another form, and none of our edits by them then."""
        major = re.search(r"(\d+)\.\d+", self.version.rsplit(")", 1)[-1])
        return major is not None and int(major.group(1)) < 16


@functools.cache
def host_compiler() -> HostCompiler:
    """Return the g++ of this machine.

    Raises:
        ExecutorUnavailable: If there is none, or this host is not x86-64.
    """
    if os.uname().machine != "x86_64":
        raise ExecutorUnavailable(
            "cpu",
            f"it runs on x86-64 hosts, this one is {os.uname().machine}",
            remedy="use a GPU machine (--executor cuda)",
        )
    path = shutil.which("g++")
    if path is None:
        raise ExecutorUnavailable("cpu", "g++ is not installed", remedy=_REMEDY)
    try:
        said = run([path, "--version"], timeout_s=20)
    except ProgramMissing as exc:
        raise ExecutorUnavailable("cpu", str(exc), remedy=_REMEDY) from exc
    if not said.ok:
        raise ExecutorUnavailable("cpu", f"g++ --version failed: {said.text()[:200]}", remedy=_REMEDY)
    features = _cpu_features()
    flags = [
        f"-m{name}"
        for name in ("fma", "f16c", "avx2", "bmi", "bmi2", "popcnt", "lzcnt")
        if _feature(name) in features
    ]
    return HostCompiler(path, said.stdout.decode("utf-8", "replace").splitlines()[0], tuple(flags))


def _feature(flag: str) -> str:
    return {"bmi": "bmi1", "lzcnt": "abm"}.get(flag, flag)


def _cpu_features() -> frozenset[str]:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return frozenset(line.split(":", 1)[1].split())
    return frozenset()


def flags_of(mode: Mode, *, fast_math: bool = False) -> list[str]:
    """Return the compile flags of kernels in a mode; the precompiled header is built with exactly these."""
    common = [
        "-std=c++17", "-w", "-Wno-narrowing", "-fPIC", "-fno-exceptions", "-fno-rtti", "-ffp-contract=fast", "-ftls-model=initial-exec",
        "-fno-strict-aliasing", "-fwrapv", "-fno-stack-protector", "-fvisibility=hidden", "-fno-math-errno",
        "-U_FORTIFY_SOURCE", "-fno-semantic-interposition", "-fno-plt", "-ffunction-sections", *host_compiler().flags,
    ]  # fmt: skip
    common += ["-fsanitize=float-cast-overflow"]
    if fast_math:
        common += ["-ffinite-math-only", "-fno-signed-zeros", "-freciprocal-math"]
    if mode == "plain":
        return ["-O2", *common]
    return [
        "-O1", "-fno-tree-sink", "-g1", "-DSIM_CHECK", *common, "-fsanitize=thread,bounds-strict,alignment", "--param=tsan-distinguish-volatile=1",
        "--param=tsan-instrument-func-entry-exit=0", "-fsanitize-coverage=trace-pc",
    ]  # fmt: skip


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
        Path(__file__),
        HERE / "casts.py",
        HERE / "edits.py",
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


def runner(cache: BuildCache, mode: Mode) -> Path:
    """Return the runner of a mode, built when the cache has none.

    Raises:
        ExecutorUnavailable: If g++ cannot build it; a machine without its C++ headers, say.
    """
    name = f"runner_{mode}"
    key = key_of("runner", mode)
    found = cache.lookup(key, name)
    if found is not None:
        return found
    folder = cache.scratch()
    try:
        out = folder / name
        sources = [NATIVE / "runtime.cpp", NATIVE / "runner.cpp"] + (
            [NATIVE / "check.cpp", NATIVE / "count.cpp"] if mode == "check" else []
        )
        flags = [
            host_compiler().path, "-std=c++17", "-O2", "-g1", "-w", *(["-DSIM_CHECK"] if mode == "check" else []),
            f"-I{INCLUDE}", f"-I{NATIVE}",
        ]  # fmt: skip
        objects = [folder / f"{source.stem}.o" for source in sources]

        def compiled(pair: tuple[Path, Path]) -> Finished:
            source, made = pair
            return _compile(cache, [*flags, "-c", str(source), "-o", str(made)], folder, timeout_s=180)

        launcher(cache)  # all of them need it
        with ThreadPoolExecutor(len(sources)) as pool:
            each = list(pool.map(compiled, zip(sources, objects, strict=True)))
        done = next((d for d in each if not d.ok), None)
        if done is None:
            linked = [*map(str, objects), "-rdynamic", "-o", str(out), "-ldl", "-lpthread", "-lrt"]
            done = _compile(cache, [*flags, *linked], folder, timeout_s=180)
        if not done.ok:
            reason = f"building the {mode} runner failed: {done.text()[:400]}"
            raise ExecutorUnavailable(
                "cpu", reason, remedy="install a working g++ with its C++ standard library"
            )
        out.chmod(0o755)
        return cache.publish(key, name, out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def precompiled_header(cache: BuildCache, mode: Mode, *, fast_math: bool) -> Path | None:
    """Return a folder whose `sim.h` is precompiled for these flags, `None` if g++ cannot make one."""
    key = key_of("pch", mode, str(fast_math))
    if cache.lookup(key, "sim.h.gch") is not None:
        return cache.root / key
    folder = cache.scratch()
    try:
        argv = [
            host_compiler().path, *flags_of(mode, fast_math=fast_math), f"-I{INCLUDE}", "-x", "c++-header",
            str(INCLUDE / "sim.h"), "-o", str(folder / "sim.h.gch"),
        ]  # fmt: skip
        if not _compile(cache, argv, folder, timeout_s=180).ok:
            return None
        return cache.publish(key, "sim.h.gch", folder / "sim.h.gch").parent
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def kernel_library(
    cache: BuildCache,
    text: str,
    mode: Mode,
    *,
    fast_math: bool,
    timeout_s: float,
    refine: Callable[[bytes], str | None] = lambda _: None,
) -> Path | Finished:
    """Return the shared object of a rewritten kernel, or how its compilation ended.

    Args:
        cache: Where it is kept.
        text: The translation unit.
        mode: Which flags.
        fast_math: The plan's option.
        timeout_s: Wall seconds of one compilation.
        refine: Given the compiler's log (JSON), a better text, which is taken if it compiles.
    """
    key = key_of("kernel", mode, str(fast_math), text)
    found = cache.lookup(key, "kernel.so")
    if found is not None:
        return found
    header = precompiled_header(cache, mode, fast_math=fast_math)
    folder = cache.scratch()
    try:
        done = _compile_kernel(cache, text, folder, mode, header, fast_math=fast_math, timeout_s=timeout_s)
        if not done.ok:
            return _in_words(cache, done, folder, mode, header, fast_math=fast_math, timeout_s=timeout_s)
        better = refine(done.stderr)
        if better is not None:
            kept = folder / "kernel.so"
            kept.rename(folder / "first.so")
            again = _compile_kernel(
                cache, better, folder, mode, header, fast_math=fast_math, timeout_s=timeout_s
            )
            if not again.ok:
                (folder / "first.so").replace(kept)
                (folder / "kernel.cu").write_text(text, encoding="utf-8")
        cache.publish(key, "kernel.cu", folder / "kernel.cu")  # tells columns of the kernel's own text
        return cache.publish(key, "kernel.so", folder / "kernel.so")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _in_words(
    cache: BuildCache, done: Finished, folder: Path, mode: Mode, header: Path | None, *, fast_math: bool, timeout_s: float
) -> Finished:  # fmt: skip
    """Return a failed compilation with its log in words: only they say which line of the kernel an error comes from."""
    if done.status != "exited" or not has_errors(done.stderr):
        return done
    argv = [
        host_compiler().path, *flags_of(mode, fast_math=fast_math), *([f"-I{header}"] if header else []), f"-I{INCLUDE}",
        "-fsyntax-only", "-x", "c++", str(folder / "kernel.cu"),
    ]  # fmt: skip
    again = _compile(
        cache, argv, folder, timeout_s=timeout_s, cpu_s=KERNEL_CPU_S, readable=[header] if header else []
    )
    return again if again.status == "exited" and not again.ok else done


def _compile_kernel(
    cache: BuildCache, text: str, folder: Path, mode: Mode, header: Path | None, *, fast_math: bool, timeout_s: float
) -> Finished:  # fmt: skip
    """Compile a translation unit to `kernel.so` in the folder; the log tells where floats become integers."""
    source = folder / "kernel.cu"
    source.write_text(text, encoding="utf-8")
    flags = [f for f in flags_of(mode, fast_math=fast_math) if f != "-w"]
    told = ["-Wfloat-conversion", "-fdiagnostics-format=json"] if host_compiler().speaks_json else ["-w"]
    argv = [
        host_compiler().path, *flags, *told, *([f"-I{header}"] if header else []),
        f"-I{INCLUDE}", "-shared", "-nostartfiles", "-Wl,-z,now", "-Wl,--hash-style=gnu", "-Wl,--gc-sections", "-fuse-ld=bfd",
        "-nodefaultlibs", "-x", "c++", str(source), "-x", "none", "-o", str(folder / "kernel.so"), "-lm", "-lc", "-lgcc",
    ]  # fmt: skip
    return _compile(
        cache, argv, folder, timeout_s=timeout_s, cpu_s=KERNEL_CPU_S, readable=[header] if header else []
    )


def launcher(cache: BuildCache) -> Path:
    """Return the program that contains the compiler, built when the cache has none.

    Raises:
        ExecutorUnavailable: If g++ cannot build it.
    """
    key = key_of("launcher")
    found = cache.lookup(key, "contain")
    if found is not None:
        return found
    folder = cache.scratch()
    try:
        compiler = host_compiler().path
        out = folder / "contain"
        argv = [
            compiler,
            "-std=c++17",
            "-O1",
            "-w",
            f"-I{NATIVE}",
            str(NATIVE / "contain.cpp"),
            "-o",
            str(out),
        ]
        # The one compilation that nothing contains: its text is ours, and there is no launcher yet.
        done = run(argv, timeout_s=120, cwd=folder, env=compiler_environment(compiler, folder))
        if not done.ok:
            reason = f"building the compiler's sandbox failed: {done.text()[:400]}"
            raise ExecutorUnavailable("cpu", reason, remedy="install a working g++ and the kernel's headers")
        out.chmod(0o755)
        return cache.publish(key, "contain", out)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _compile(
    cache: BuildCache,
    argv: list[str],
    folder: Path,
    *,
    timeout_s: float,
    cpu_s: int = _OWN_CPU_S,
    readable: Sequence[Path] = (),
) -> Finished:
    """Run g++ contained, with the build's own folder as the only place to write.

    Raises:
        SandboxUnavailable: If it cannot be contained here and the cache was not opened as unsafe.
    """
    bounds = Bounds((INCLUDE, NATIVE, PRELUDE, *readable), folder, cpu_s)
    command = compile_argv(launcher(cache), argv, bounds, unsafe=cache.unsafe)
    environment = compiler_environment(argv[0], folder)
    done = run(command, timeout_s=timeout_s, cwd=folder, env=environment, ends_itself=bubblewrap() is None)
    if done.returncode == NO_SECCOMP:
        msg = "the compiler cannot be contained here: seccomp filters do not work"
        raise SandboxUnavailable(msg, remedy="use a kernel with seccomp, or --unsafe-exec for code you trust")
    return done
