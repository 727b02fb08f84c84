"""What the CPU executor builds: its runners, precompiled headers, kernels, and the program that contains g++ itself."""

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cuda_harness.state.errors import ExecutorUnavailable, SandboxUnavailable
from cuda_harness.tools.execute.cpu.cache import INCLUDE, NATIVE, PRELUDE, BuildCache, key_of
from cuda_harness.tools.execute.cpu.casts import has_errors
from cuda_harness.tools.execute.cpu.compiler import Mode, flags_of, host_compiler
from cuda_harness.tools.execute.cpu.contain import (
    NO_SECCOMP,
    Bounds,
    bubblewrap,
    compile_argv,
    compiler_environment,
)
from cuda_harness.tools.process import Finished, run

KERNEL_CPU_S = 15
"""Processor seconds that a kernel's compilation may take; a typical one takes half a second."""
_OWN_CPU_S = 120


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
