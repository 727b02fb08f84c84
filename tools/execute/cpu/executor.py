"""`cpu`: the same kernel.cu through g++ and our own device headers, in one contained native child per job."""

import contextlib
import json
import math
import os
import re
import secrets
import signal
import struct
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cuda_harness.state.errors import ExecutorUnavailable, SandboxUnavailable
from cuda_harness.state.settings import Settings
from cuda_harness.tools.execute.cpu.build import BuildCache, Mode, host_compiler, kernel_library, runner
from cuda_harness.tools.execute.cpu.contain import SYSTEM_READABLE, bubblewrapped
from cuda_harness.tools.execute.cpu.limits import launch_fault
from cuda_harness.tools.execute.cpu.lines import place_of
from cuda_harness.tools.execute.cpu.rewrite import Rewritten, Unsupported, rewrite
from cuda_harness.tools.execute.cpu.symbols import DEVICE_HEAP, foreign_symbols
from cuda_harness.tools.execute.dtypes import np_dtype
from cuda_harness.tools.execute.protocol import (
    Arg,
    CallOutput,
    CopyOp,
    DeviceFacts,
    FillOp,
    Job,
    JobFault,
    JobNotRun,
    JobOk,
    JobResult,
    LaunchOp,
    Op,
    PointerArg,
    Program,
    SymbolOp,
    ValueArg,
)
from cuda_harness.tools.execute.protocol import Mode as JobMode
from cuda_harness.tools.process import Finished, run
from cuda_harness.tools.toolchain.macros import expand_hiding
from cuda_harness.tools.toolchain.source import SourceFacts, define_macros, inspect, resolve_includes

COMPILE_S = 60.0
MAX_WORKERS = 32
"""OS threads of plain mode."""
_START_S = 0.03
"""Seconds to start a child, map its memory and read its report."""
_MOVED_PER_S = 0.4e9
"""Bytes of buffers a second that are filled, copied into and out of the child, and checked."""
_SAMPLE_S = 0.02
"""A sample shorter than this says little: more blocks are run."""
_HEAD = 4096
"""Bytes before the contents in the shared memory: the runner's progress word."""


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


@dataclass(frozen=True)
class _Layout:
    """Where each buffer's contents lie in one call's region of the shared memory."""

    inputs: tuple[tuple[int, int, int], ...]
    outputs: tuple[tuple[int, int, int], ...]
    mask_at: int
    bytes: int


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
        self._workers = workers or min(MAX_WORKERS, len(os.sched_getaffinity(0)))
        self._cancel = cancel

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
        order = job.poison % 3
        result = self._execute(job, built, order)
        if order and (result is None or (isinstance(result, JobFault) and result.fault == "timeout")):
            result = self._execute(job, built, 0)
        return result or JobNotRun("environment", "the runner asked for another order, which it had")

    def build(
        self, source: str, macros: dict[str, int], mode: Mode, *, fast_math: bool
    ) -> Path | JobFault | JobNotRun:
        """Return the compiled kernel, or why there is none."""
        resolved = resolve_includes(source)
        if resolved.violations:
            first = resolved.violations[0]
            return JobFault("policy", f"line {first.line}: {first.text}", {"line": first.line})
        facts = inspect(source)
        rewritten = rewrite(expand_hiding(resolved.source), facts)
        if isinstance(rewritten, Unsupported):
            return JobNotRun(
                "unsupported", f"line {rewritten.line}: {rewritten.message}", "", {"line": rewritten.line}
            )
        text = _translation_unit(rewritten, macros, facts)
        library = kernel_library(self._cache, text, mode, fast_math=fast_math, timeout_s=COMPILE_S)
        if isinstance(library, Finished):
            return _compile_failed(library)
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

    def _execute(self, job: Job, library: Path, order: int) -> JobResult | None:
        """Run a built job once; `None`: it may wait for a block that its order starts later."""
        with contextlib.ExitStack() as stack:
            return self._run_child(job, library, order, stack)

    def _run_child(
        self, job: Job, library: Path, order: int, stack: contextlib.ExitStack
    ) -> JobResult | None:
        layout = _layout(job.program)
        program = runner(self._cache, job.mode)
        wrapped = bubblewrapped([*SYSTEM_READABLE, str(program), str(library)])
        memory = os.memfd_create("cuda-harness-job", os.MFD_CLOEXEC)
        stack.callback(os.close, memory)
        size = _HEAD + layout.bytes * len(job.calls)
        try:
            os.ftruncate(memory, max(size, 8192))
            _write_inputs(memory, job, layout)
        except (OSError, MemoryError) as exc:
            return JobNotRun(
                "resources", f"no memory for {size} bytes of contents: {exc}", "use smaller sizes"
            )
        job_read, job_write = os.pipe()
        result_read, result_write = os.pipe()
        secret = secrets.token_hex(16)
        spec = _job_text(
            job,
            library,
            layout,
            secret,
            workers=self._workers,
            unsafe=self._unsafe or bool(wrapped),
            order=order,
        ).encode()
        answer: list[bytes] = []
        feeder = threading.Thread(target=_feed, args=(job_write, spec), daemon=True)
        reader = threading.Thread(target=_collect, args=(result_read, answer), daemon=True)
        feeder.start()
        reader.start()
        try:
            done = run(
                [*wrapped, str(program), str(job_read), str(memory), str(result_write)],
                timeout_s=job.deadline_s, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, max_output=65_536,
                pass_fds=(job_read, memory, result_write), cancel=self._cancel,
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
        self, job: Job, library: Path, layout: _Layout, memory: int, done: Finished, answer: bytes
    ) -> JobResult | None:
        try:
            said = json.loads(answer.split(b"\n", 1)[0]) if answer else None
        except ValueError:
            said = None
        if not isinstance(said, dict):
            return _died(job, done, _progress(memory))
        status = said.get("status")
        if status == "no_sandbox":
            msg = "foreign native code cannot be contained here: seccomp filters do not work"
            raise SandboxUnavailable(
                msg, remedy="use a kernel with seccomp, or --unsafe-exec for code you trust"
            )
        if status == "fault":
            return _fault(said, library)
        if said.get("reason") == "again":
            return None
        if status != "ok":
            return JobNotRun(said.get("reason", "environment"), str(said.get("message", "")))
        calls = tuple(
            _outputs(memory, layout, job, index, said["unwritten"][index]) for index in range(len(job.calls))
        )
        return JobOk(
            calls, float(said["seconds"]), tuple(said.get("warnings", ())), dict(said.get("facts", {}))
        )

    def estimate_s(self, job: Job) -> float | None:
        """Return expected wall seconds of one call, from the first blocks of its launches; `None` where it cannot tell.

        Each distinct launch is run with its grid cut to a few blocks, more until the time can be measured, and the
        time per block is scaled up. Loops over flags and cooperative launches cannot be cut.
        """
        launches = [op for op in job.program.ops if isinstance(op, LaunchOp)]
        if len(launches) < len(
            [op for op in job.program.ops if not isinstance(op, (FillOp, CopyOp, SymbolOp))]
        ):
            return None
        alike: dict[tuple[Any, ...], list[LaunchOp]] = {}
        for op in launches:
            alike.setdefault((op.kernel, op.grid, op.block, op.shared_bytes), []).append(op)
        if len(alike) > 16 or any(op.cooperative for op in launches):
            return None
        single = CpuExecutor(unsafe=self._unsafe, cache=self._cache.root.parent, workers=1)
        kernels_s = 0.0
        for same in alike.values():
            seconds = _sampled(single, job, same[0])
            if seconds is None:
                return None
            kernels_s += seconds * len(same)
        moved = sum(b.count * np_dtype(b.dtype).itemsize for b in job.program.buffers)
        workers = 1.0 if job.mode == "check" else 1.0 + 0.6 * (self._workers - 1)
        return kernels_s / workers + moved / _MOVED_PER_S + _START_S

    def close(self) -> None:
        """Nothing is kept running between jobs."""


def _sampled(executor: CpuExecutor, job: Job, op: LaunchOp) -> float | None:
    """Return seconds of a launch on one core, from a part of its blocks."""
    blocks, sample = math.prod(op.grid), 4
    while True:
        y = min(op.grid[1], max(1, sample // op.grid[0]))
        grid = (min(op.grid[0], sample), y, 1)
        done = executor.run(
            replace(
                job,
                program=replace(job.program, ops=(replace(op, grid=grid),)),
                calls=job.calls[:1],
                deadline_s=min(10.0, job.deadline_s),
                full_output=False,
            )
        )
        if not isinstance(done, JobOk):
            return None
        ran = math.prod(grid)
        if done.seconds >= _SAMPLE_S or ran >= blocks or grid[:2] == op.grid[:2]:
            return done.seconds / ran * blocks
        sample = min(blocks, max(sample * 4, int(ran * 1.5 * _SAMPLE_S / max(done.seconds, 1e-6))))


def _translation_unit(rewritten: Rewritten, macros: dict[str, int], facts: SourceFacts) -> str:
    lines = ['#include "sim.h"', define_macros(macros)]
    lines += ['#line 1 "kernel.cu"', rewritten.text, '#line 1 "cuda_harness_entries"']
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


def _compile_failed(done: Finished) -> JobFault | JobNotRun:
    if done.status != "exited":
        return JobFault("compile", f"g++ did not end within {done.seconds:.0f} s")
    log = done.text()
    beyond = re.search(r"CPU time limit|Killed signal|out of memory|memory exhausted|File size limit", log)
    if beyond:
        what = "time" if "time" in beyond.group() else "memory or disk"
        return JobFault("compile", f"g++ needs too much {what} for this source: {beyond.group()}")
    mark = re.search(r"cuda_harness unsupported: ([^\n\"]{1,200})", log)
    line = re.search(r"kernel\.cu:(\d+):", log)
    evidence = {"line": int(line.group(1))} if line else {}
    where = f"line {line.group(1)}: " if line else ""
    if mark:
        return JobNotRun("unsupported", where + mark.group(1), "", evidence)
    missing = re.search(r"fatal error: ([^\n:]+): No such file", log)
    if missing:
        return JobNotRun(
            "unsupported", f"{where}the CPU executor has no header {missing.group(1)}", "", evidence
        )
    errors = re.findall(r"kernel\.cu:(\d+):(?:\d+:)? error: ([^\n]{1,300})", log)
    text = "; ".join(f"line {n}: {m}" for n, m in errors[:5]) or log[:800]
    return JobNotRun("unsupported", f"g++ does not accept this source: {text}", "", evidence)


def _layout(program: Program) -> _Layout:
    """Inputs in buffer order, then outputs in buffer order, each 64-byte aligned, then a byte an output element."""
    at, inputs, outputs, masks = 0, [], [], 0
    for index, b in enumerate(program.buffers):
        if b.role in {"in", "inout"}:
            size = b.count * np_dtype(b.dtype).itemsize
            inputs.append((index, at, size))
            at += (size + 63) // 64 * 64
    for index, b in enumerate(program.buffers):
        if b.role == "out":
            size = b.count * np_dtype(b.dtype).itemsize
            outputs.append((index, at, size))
            at += (size + 63) // 64 * 64
            masks += b.count
    return _Layout(tuple(inputs), tuple(outputs), at, (at + masks + 4095) // 4096 * 4096)


def _write_inputs(memory: int, job: Job, layout: _Layout) -> None:
    for number, call in enumerate(job.calls):
        for index, at, size in layout.inputs:
            name = job.program.buffers[index].name
            flat = np.ascontiguousarray(call[name]).reshape(-1)
            data = memoryview(flat.view(np.uint8).data) if size else memoryview(b"")
            position, written = _HEAD + number * layout.bytes + at, 0
            while written < size:
                written += os.pwrite(memory, data[written:], position + written)


def _outputs(memory: int, layout: _Layout, job: Job, number: int, unwritten: dict[str, int]) -> CallOutput:
    start = _HEAD + number * layout.bytes
    arrays, masks = {}, {}
    places = [p for p in layout.inputs if job.program.buffers[p[0]].role == "inout"] + list(layout.outputs)
    at = start + layout.mask_at
    for index, position, size in places:
        b = job.program.buffers[index]
        if job.full_output:
            arrays[b.name] = np.frombuffer(
                _pread(memory, size, start + position), dtype=np_dtype(b.dtype)
            ).copy()
        if b.role == "out":
            if unwritten.get(b.name):
                masks[b.name] = np.frombuffer(_pread(memory, b.count, at), dtype=np.uint8).astype(bool)
            at += b.count
    return CallOutput(arrays, {k: int(v) for k, v in unwritten.items()}, masks)


def _pread(memory: int, size: int, position: int) -> bytearray:
    data = bytearray(size)
    view, done = memoryview(data), 0
    while done < size:
        count = os.preadv(memory, [view[done:]], position + done)
        if count <= 0:
            break
        done += count
    return data


def _job_text(
    job: Job, library: Path, layout: _Layout, secret: str, *, workers: int, unsafe: bool, order: int
) -> str:
    cpu_seconds = job.deadline_s * max(1, workers)
    lines = [f"secret {secret}", f"library {library}"]
    lines += [f"readable {p}" for p in SYSTEM_READABLE]
    lines.append(
        f"limits {len(job.calls)} {workers} {cpu_seconds:.1f} {job.memory_bytes} {int(unsafe)} {job.poison & 0xFFFFFFFF} {layout.bytes} {order} {int(job.count)}"
    )
    index = {b.name: i for i, b in enumerate(job.program.buffers)}
    roles = {"in": "i", "out": "o", "inout": "b", "scratch": "s"}
    for b in job.program.buffers:
        item = np_dtype(b.dtype).itemsize
        lines.append(f"buffer {b.name} {b.dtype} {b.count * item} {item} {roles[b.role]}")
    _op_lines(job.program.ops, index, lines)
    return "\n".join(lines) + "\n"


def _op_lines(ops: tuple[Op, ...], index: dict[str, int], lines: list[str]) -> None:
    for op in ops:
        match op:
            case LaunchOp():
                grid, block = " ".join(map(str, op.grid)), " ".join(map(str, op.block))
                lines.append(f"launch {op.kernel} {grid} {block} {op.shared_bytes} {int(op.cooperative)}")
                lines += [_arg_line(a, index) for a in op.args]
            case FillOp():
                lines.append(f"fill {index[op.buffer]} {op.pattern.hex()}")
            case CopyOp():
                lines.append(f"copy {index[op.destination]} {index[op.source]}")
            case SymbolOp():
                lines.append(f"symbol {op.symbol} {index[op.source]}")
            case _:
                lines.append(f"while {index[op.flag]} {op.limit}")
                _op_lines(op.body, index, lines)
                lines.append("end")


def _arg_line(arg: Arg, index: dict[str, int]) -> str:
    if isinstance(arg, PointerArg):
        return f"pointer {index[arg.buffer]}"
    if isinstance(arg, ValueArg):
        return f"value {np.asarray(arg.value).astype(np_dtype(arg.dtype)).tobytes().hex()}"
    return "value " + struct.pack("<16Q", *([0] * 16)).hex()


def _feed(descriptor: int, data: bytes) -> None:
    with contextlib.suppress(OSError), os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


def _collect(descriptor: int, answer: list[bytes]) -> None:
    left = 1 << 20
    with os.fdopen(descriptor, "rb") as stream:
        while left > 0:
            data = os.read(stream.fileno(), 65_536)
            if not data:
                return
            answer.append(data)
            left -= len(data)


def _progress(memory: int) -> int:
    data = _pread(memory, 4, 0)
    return int(struct.unpack("<i", data)[0])


def _launch_name(job: Job, number: int) -> str:
    names: list[str] = []

    def walk(ops: tuple[Op, ...]) -> None:
        for op in ops:
            if isinstance(op, LaunchOp):
                names.append(op.kernel)
            elif not isinstance(op, (FillOp, CopyOp, SymbolOp)):
                walk(op.body)

    walk(job.program.ops)
    return names[number] if 0 <= number < len(names) else "the plan"


def _died(job: Job, done: Finished, launch: int) -> JobResult:
    name = _launch_name(job, launch)
    if done.status == "cancelled":
        return JobNotRun("environment", "the run was cancelled")
    if done.status == "timed_out" or done.returncode in {-24, -9}:
        message = f"{name} did not end within {job.deadline_s:.0f} s: an endless loop, a wait for a block that never runs, or too much work"
        return JobFault("timeout", message, {"kernel": name, "seconds": round(done.seconds, 1)})
    if done.returncode == -signal.SIGSYS:
        return JobNotRun(
            "environment",
            "the sandbox ended the runner at a system call of this machine's C library",
            "report it with `cuda-harness doctor`",
        )
    if launch < 0:
        return JobNotRun(
            "environment",
            f"the runner ended with {done.returncode} before the kernel ran: {done.text()[:300]}",
        )
    return JobFault("crash", f"{name} ended the process with status {done.returncode}", {"kernel": name})


def _fault(said: dict[str, Any], library: Path) -> JobFault:
    keys = ("kernel", "launch", "block", "thread", "line", "column", "buffer", "other_thread", "other_block")
    evidence = {k: said[k] for k in keys if k in said}
    message = str(said.get("message", ""))
    pc = said.get("pc")
    if pc and "line" not in evidence:
        offset = max(int(pc) - int(said.get("base", 0)) - 1, 0)
        place = place_of(library, offset)
        line = place.line if place else _line_of(library, offset)
        if line is not None:
            evidence["line"] = line
        if place and place.column:
            evidence["column"] = place.column
    if "line" in evidence and not message.startswith("line "):
        message = f"line {evidence['line']}: {message}"
    if "thread" in evidence:
        message += (
            f" [kernel {evidence.get('kernel')}, block {evidence.get('block')}, thread {evidence['thread']}]"
        )
    return JobFault(said["fault"], message, evidence)


def _line_of(library: Path, offset: int) -> int | None:
    """Return the kernel.cu line of a code address, innermost inlined frame of the kernel's own text first."""
    try:
        done = run(["addr2line", "-i", "-e", str(library), hex(offset)], timeout_s=10)
    except Exception:  # noqa: BLE001 - a missing addr2line costs the line, nothing else
        return None
    for text in done.stdout.decode("utf-8", "replace").splitlines():
        found = re.match(r"(?:.*/)?kernel\.cu:(\d+)", text)
        if found:
            return int(found.group(1))
    return None
