"""`cpu`: the same kernel.cu through g++ and our own device headers, in one contained native child per job."""

import contextlib
import json
import os
import secrets
import threading
from dataclasses import replace
from pathlib import Path

from cuda_harness.state.errors import ExecutorUnavailable, SandboxUnavailable
from cuda_harness.state.settings import Settings
from cuda_harness.tools.execute.cpu.build import kernel_library, runner
from cuda_harness.tools.execute.cpu.cache import BuildCache
from cuda_harness.tools.execute.cpu.casts import saturate_casts, saturate_implicit
from cuda_harness.tools.execute.cpu.compiler import Mode, host_compiler
from cuda_harness.tools.execute.cpu.contain import SYSTEM_READABLE, bubblewrapped
from cuda_harness.tools.execute.cpu.coverage import coverage_of
from cuda_harness.tools.execute.cpu.guards import guard_locals
from cuda_harness.tools.execute.cpu.limits import launch_fault
from cuda_harness.tools.execute.cpu.lines import FIRST_LINE
from cuda_harness.tools.execute.cpu.outcomes import compile_failed, died, fault_of, not_run_of
from cuda_harness.tools.execute.cpu.rewrite import Rewritten, Unsupported, rewrite
from cuda_harness.tools.execute.cpu.symbols import DEVICE_HEAP, foreign_symbols
from cuda_harness.tools.execute.cpu.wire import (
    HEAD,
    Layout,
    collect,
    feed,
    job_text,
    layout_of,
    outputs_of,
    progress,
    write_inputs,
)
from cuda_harness.tools.execute.protocol import (
    ORDERS,
    DeviceFacts,
    Job,
    JobFault,
    JobNotRun,
    JobOk,
    JobResult,
)
from cuda_harness.tools.execute.protocol import Mode as JobMode
from cuda_harness.tools.process import Finished, run
from cuda_harness.tools.toolchain.directives import define_macros, resolve_includes
from cuda_harness.tools.toolchain.macros import expand_hiding
from cuda_harness.tools.toolchain.source import SourceFacts, inspect

COMPILE_S = 60.0
_PATIENCE = 6.0
"""How many times its deadline a job may take on a machine that is busy with other work."""
MAX_WORKERS = 32
"""OS threads of plain mode."""


def make(argument: str, *, settings: Settings, cancel: threading.Event | None = None) -> "CpuExecutor":
    """Return the CPU executor of a run.

    Raises:
        ExecutorUnavailable: If this machine has no g++.
    """
    if argument:
        msg = f"cpu:{argument}"
        raise ExecutorUnavailable(msg, "the CPU executor takes no number", remedy="use --executor cpu")
    cache = Path(settings.cache) if settings.cache else None
    return CpuExecutor(unsafe=settings.unsafe_exec, cache=cache, cancel=cancel)


class CpuExecutor:
    """Runs jobs on this machine's cores; knows a plain and a check mode."""

    name = "cpu"
    modes: frozenset[JobMode] = frozenset({"plain", "check"})

    def __init__(
        self,
        *,
        unsafe: bool = False,
        cache: Path | None = None,
        workers: int | None = None,
        cancel: threading.Event | None = None,
    ) -> None:
        """Find the compiler and the cache.

        Args:
            unsafe: Run even where foreign code cannot be contained.
            cache: Folder for built files; `None`: the user's cache folder.
            workers: OS threads of plain mode; `None`: one a core, at most `MAX_WORKERS`.
            cancel: When set, running children are ended at once.
        """
        host_compiler()
        self._cache = BuildCache(cache, unsafe=unsafe)
        self._unsafe = unsafe
        self._no_cpp: set[str] = set()
        """Edited texts that did not compile: a candidate has many jobs."""
        self._workers = workers or min(MAX_WORKERS, len(os.sched_getaffinity(0)))
        self._cancel = cancel
        self._runners: dict[Mode, threading.Thread] = {}
        """By mode: makes the runner beside the first kernel."""

    def device(self) -> DeviceFacts:
        """Return the limits of an H100-class device, so that plans mean the same as on a GPU; few multiprocessors."""
        return DeviceFacts(name="CPU executor", num_sms=8)

    def run(self, job: Job) -> JobResult:
        """Build and run a job.

        Raises:
            SandboxUnavailable: If foreign code cannot be contained here and `unsafe` was not said.
            ExecutorUnavailable: If the toolchain is broken.
        """
        broken = launch_fault(job.program, inspect(job.source), self.device())
        if broken is not None:
            return broken
        built = self.build(job.source, dict(job.program.macros), job.mode, fast_math=job.fast_math)
        if not isinstance(built, Path):
            return built
        order = job.poison % ORDERS
        result = self._execute(job, built, order)
        if order and (result is None or (isinstance(result, JobFault) and result.fault == "timeout")):
            result = self._execute(job, built, 0)
        return result or JobNotRun("environment", "the runner asked for another order, which it had")

    def build(
        self, source: str, macros: dict[str, int], mode: Mode, *, fast_math: bool
    ) -> Path | JobFault | JobNotRun:
        """Return the compiled kernel, or why there is none."""
        self._start_runner(mode)
        resolved = resolve_includes(source)
        if resolved.violations:
            first = resolved.violations[0]
            return JobFault("policy", f"line {first.line}: {first.text}", {"line": first.line})
        facts = inspect(source)
        library = self._library(expand_hiding(resolved.source), facts, macros, mode, fast_math=fast_math)
        if isinstance(library, Finished):
            return compile_failed(library)
        if isinstance(library, Unsupported):
            return JobNotRun(
                "unsupported", f"line {library.line}: {library.message}", "", {"line": library.line}
            )
        foreign = foreign_symbols(library, own_constructors=1 if mode == "check" else 0)
        heap = set(foreign) & set(DEVICE_HEAP)
        if heap and heap == set(foreign):
            names = ", ".join(sorted(DEVICE_HEAP[n] for n in heap))
            return JobNotRun("unsupported", f"device-side {names}: the CPU executor has no device heap")
        if foreign:
            shown = ", ".join(foreign[:5])
            return JobFault(
                "policy",
                f"the kernel calls host functions that device code does not have: {shown}",
                {"symbols": foreign[:20]},
            )
        return library

    def _start_runner(self, mode: Mode) -> None:
        """Begin with the runner of a mode: on a fresh machine it takes longer than the kernel. What fails is told later."""

        def make() -> None:
            with contextlib.suppress(Exception):
                runner(self._cache, mode)

        if mode not in self._runners:
            self._runners[mode] = threading.Thread(target=make, daemon=True)
            self._runners[mode].start()

    def _library(
        self, source: str, facts: SourceFacts, macros: dict[str, int], mode: Mode, *, fast_math: bool
    ) -> Path | Finished | Unsupported:
        """Compile with casts that saturate and, to check, guard zones; where that is no C++, in odd corners, with less."""
        texts = [saturate_casts(source), source]
        if mode == "check":
            texts.insert(0, saturate_casts(guard_locals(source)))
        texts = list(dict.fromkeys(texts))
        while True:
            text = texts.pop(0)
            if texts and text in self._no_cpp:
                continue
            library = self._rewritten(text, facts, macros, mode, fast_math=fast_math)
            if not texts or not isinstance(library, Finished) or b"error: " not in library.stderr:
                return library
            self._no_cpp.add(text)

    def _rewritten(
        self, source: str, facts: SourceFacts, macros: dict[str, int], mode: Mode, *, fast_math: bool
    ) -> Path | Finished | Unsupported:
        rewritten = rewrite(source, facts)
        if isinstance(rewritten, Unsupported):
            return rewritten

        def refine(log: bytes) -> str | None:
            better = saturate_implicit(rewritten.text, log)
            return better and _translation_unit(replace(rewritten, text=better), macros, facts)

        return kernel_library(
            self._cache,
            _translation_unit(rewritten, macros, facts),
            mode,
            fast_math=fast_math,
            timeout_s=COMPILE_S,
            refine=refine,
        )

    def _execute(self, job: Job, library: Path, order: int) -> JobResult | None:
        """Run a built job once; `None`: it may wait for a block that its order starts later."""
        with contextlib.ExitStack() as stack:
            return self._run_child(job, library, order, stack)

    def _run_child(
        self, job: Job, library: Path, order: int, stack: contextlib.ExitStack
    ) -> JobResult | None:
        layout = layout_of(job.program)
        making = self._runners.get(job.mode)
        if making is not None:
            making.join()
        program = runner(self._cache, job.mode)
        wrapped = bubblewrapped([*SYSTEM_READABLE, str(program), str(library)])
        memory = os.memfd_create("cuda-harness-job", os.MFD_CLOEXEC)
        stack.callback(os.close, memory)
        size = HEAD + layout.bytes * len(job.calls)
        try:
            os.ftruncate(memory, max(size, 8192))
            write_inputs(memory, job, layout)
        except (OSError, MemoryError) as exc:
            return JobNotRun(
                "resources", f"no memory for {size} bytes of contents: {exc}", "use smaller sizes"
            )
        job_read, job_write = os.pipe()
        result_read, result_write = os.pipe()
        secret = secrets.token_hex(16)
        spec = job_text(
            job,
            library,
            layout,
            secret,
            workers=self._workers,
            unsafe=self._unsafe or bool(wrapped),
            order=order,
        ).encode()
        answer: list[bytes] = []
        feeder = threading.Thread(target=feed, args=(job_write, spec), daemon=True)
        reader = threading.Thread(target=collect, args=(result_read, answer), daemon=True)
        feeder.start()
        reader.start()
        try:
            done = run(
                [*wrapped, str(program), str(job_read), str(memory), str(result_write)],
                timeout_s=job.deadline_s, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, max_output=65_536,
                pass_fds=(job_read, memory, result_write), cancel=[e for e in (self._cancel, job.over) if e is not None], patience=_PATIENCE,
                ends_itself=not wrapped,
            )  # fmt: skip
        finally:
            os.close(job_read)
            os.close(result_write)
            reader.join(5)
            feeder.join(5)
        if wrapped and done.returncode is not None and done.returncode > 128:
            done = replace(done, returncode=128 - done.returncode)  # bubblewrap's way to tell of a signal
        said = b"".join(answer)
        # Another writer on the channel does not know the secret: what it says counts as no answer.
        honest = said.removeprefix(secret.encode()) if said.startswith(secret.encode()) else b""
        return self._judge(job, library, layout, memory, done, honest)

    def _judge(
        self, job: Job, library: Path, layout: Layout, memory: int, done: Finished, answer: bytes
    ) -> JobResult | None:
        try:
            said = json.loads(answer.split(b"\n", 1)[0]) if answer else None
        except ValueError:
            said = None
        if not isinstance(said, dict):
            return died(job, done, progress(memory))
        status = said.get("status")
        if status == "no_sandbox":
            msg = "foreign native code cannot be contained here: seccomp filters do not work"
            raise SandboxUnavailable(
                msg, remedy="use a kernel with seccomp, or --unsafe-exec for code you trust"
            )
        if status == "fault":
            return fault_of(said, library, job.source)
        if said.get("reason") == "again":
            return None
        if status != "ok":
            return not_run_of(said, library, job.source)
        calls = tuple(
            outputs_of(memory, layout, job, index, said["unwritten"][index])
            for index in range(len(job.calls))
        )
        reached = said.get("reached")
        return JobOk(
            calls,
            float(said["seconds"]),
            tuple(said.get("warnings", ())),
            dict(said.get("facts", {})),
            tuple(float(s) for s in said["cpu_seconds"]),
            coverage=None if reached is None else coverage_of(library, map(int, reached)),
        )

    def close(self) -> None:
        """Nothing is kept running between jobs."""


def _translation_unit(rewritten: Rewritten, macros: dict[str, int], facts: SourceFacts) -> str:
    lines = ['#include "sim.h"', define_macros(macros)]
    lines += [FIRST_LINE.rstrip(), rewritten.text, '#line 1 "cuda_harness_entries"']
    lines.append('extern "C" {')
    named = {k: rewritten.renamed.get(k, k) for k in rewritten.kernels}
    table = ", ".join(f'SIM_KERNEL_AS("{k}", {name})' for k, name in named.items())
    lines.append(
        f'__attribute__((visibility("default"))) extern const sim_kernel sim_kernels[] = {{{table}}};'
    )
    lines.append(
        f'__attribute__((visibility("default"))) extern const unsigned sim_kernel_count = {len(named)};'
    )
    shown = '__attribute__((visibility("default"))) extern'
    if any((i.name or "").startswith("cub/") for i in facts.includes):
        lines.append(f"{shown} const int sim_foreign_storage = 1;")
    if "SIM_GLOBAL(" in rewritten.text:
        lines += [
            "#ifdef SIM_CHECK",
            "extern const sim_global __start_sim_globals[], __stop_sim_globals[];",
            f"{shown} const sim_global* const sim_globals_first = __start_sim_globals;",
            f"{shown} const sim_global* const sim_globals_end = __stop_sim_globals;",
            "#endif",
        ]
    for symbol in facts.globals:
        if symbol.is_extern_c and symbol.space in {"constant", "device"}:
            name = rewritten.renamed.get(symbol.name, symbol.name)
            lines.append(f"{shown} void* const sim_symbol_{symbol.name} = (void*)&{name};")
            lines.append(f"{shown} const unsigned long sim_size_of_{symbol.name} = sizeof({name});")
    lines.append("}")
    return "\n".join(lines) + "\n"
