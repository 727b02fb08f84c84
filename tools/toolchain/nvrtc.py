"""NVRTC to cubin from wheels: no GPU, driver, nvcc or host compiler; cached, contained, with the kernel's own lines."""

import contextlib
import hashlib
import json
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from cuda_harness.state.errors import CompilerUnavailable
from cuda_harness.state.results import (
    CompileEnvironment,
    CompileOk,
    CompileRejected,
    CompileResult,
    CompileTimedOut,
    Diagnostic,
    InstructionMix,
    KernelFacts,
)
from cuda_harness.state.serde import sha256
from cuda_harness.tools.frames import read_frame, write_frame
from cuda_harness.tools.process import allowed_environment, die_with_parent, lasting
from cuda_harness.tools.toolchain.directives import DEVICE, define_macros, resolve_includes
from cuda_harness.tools.toolchain.headers import include_folders, prelude, toolchain_identity
from cuda_harness.tools.toolchain.ptx import instruction_mixes
from cuda_harness.tools.toolchain.worker import MAX_OBJECT, MAX_PTX

_REMEDY = "install the CUDA wheels: pip install 'cuda-harness[cu13]'"
_MEMORY_BYTES = 16 << 30
_LOG_CHARS = 8_000
_KEEP_BYTES = 1 << 30
_FACTS = 5
"""Version of what is kept beside a cubin."""


@dataclass
class _Worker:
    process: "subprocess.Popen[bytes]"
    jobs: IO[bytes]
    answers: IO[bytes]

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for stream in (self.jobs, self.answers):
            with contextlib.suppress(OSError):
                stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=10)


class Compiler:
    """Compiles kernels; safe to share between threads, each compile takes a worker of its own."""

    def __init__(self, *, cache: Path | None = None, workers: int | None = None) -> None:
        """Prepare the cache; nothing is started yet.

        Args:
            cache: Folder of compiled objects; `None`: the user's cache folder.
            workers: Most compiles at once; `None`: one a core.
        """
        base = os.environ.get("XDG_CACHE_HOME")
        default = (Path(base) if base else Path.home() / ".cache") / "cuda-harness"
        self._folder = (cache or default) / "cubin"
        self._idle: list[_Worker] = []
        self._slots = threading.BoundedSemaphore(workers or len(os.sched_getaffinity(0)))
        self._lock = threading.Lock()
        self._closed = False

    def compile(
        self,
        source: str,
        *,
        arch: str,
        macros: dict[str, int] | None = None,
        fast_math: bool = False,
        max_registers: int | None = None,
        deadline_s: float = 60.0,
    ) -> CompileResult:
        """Return the cubin of `source` for `arch`, or why there is none and whose fault that is.

        Includes are resolved against the allow-list first: no compiler ever opens another file.
        """
        began = time.monotonic()
        resolved = resolve_includes(source)
        if resolved.violations:
            found = tuple(
                Diagnostic(severity="error", line=v.line, message=v.text) for v in resolved.violations
            )
            return CompileRejected(
                diagnostics=found,
                log="\n".join(f"line {v.line}: {v.text}" for v in resolved.violations),
                seconds=0,
            )
        text = prelude(define_macros(macros or {})) + resolved.source
        job = {
            "source": text, "arch": arch, "fast_math": fast_math, "max_registers": max_registers,
            "include": list(include_folders()),
        }  # fmt: skip
        key = sha256({"toolchain": toolchain_identity(), "job": job, "facts": _FACTS})
        cached = self._lookup(key)
        if cached is not None:
            facts, path = cached
            return _ok(facts, path, arch, seconds=time.monotonic() - began, cached=True)
        try:
            answered = self._ask(job, deadline_s)
        except CompilerUnavailable as exc:
            return CompileEnvironment(message=exc.message, remedy=exc.remedy)
        seconds = time.monotonic() - began
        if answered is None:
            return CompileTimedOut(seconds=seconds)
        answer, cubin, ptx = answered
        if answer["status"] != "ok":
            return _failed(answer, resolved.headers, seconds)
        facts = {
            "log": answer["log"][:_LOG_CHARS],
            "kernels": [k.model_dump() for k in parse_ptxas(answer["log"])],
            "mixes": [m.model_dump() for m in instruction_mixes(ptx.decode("utf-8", "replace"))],
        }
        try:
            path = self._publish(key, facts, cubin)
        except CompilerUnavailable as exc:
            return CompileEnvironment(message=exc.message, remedy=exc.remedy)
        return _ok(facts, path, arch, seconds=seconds, cached=False)

    def _ask(self, job: dict[str, Any], deadline_s: float) -> tuple[dict[str, Any], bytes, bytes] | None:
        """Return a worker's answer with cubin and PTX, `None` at the deadline; a worker that dies is tried once more.

        The second worker is always a new one: a worker ends with the thread that started it, which may not be ours.
        A crash of the compiler itself is the source's doing; being killed from outside never is.

        Raises:
            CompilerUnavailable: If workers do not start here.
        """
        with self._slots:
            for attempt in (1, 2):
                worker = self._worker(fresh=attempt == 2)
                try:
                    write_frame(worker.jobs, job)
                    answer = _receive(worker, deadline_s)
                except (EOFError, ValueError, OSError) as exc:
                    code = worker.process.poll()
                    worker.end()
                    if attempt == 2:
                        if code is not None and code < 0 and -code != signal.SIGKILL:
                            return (
                                {
                                    "status": "failed",
                                    "kind": "crash",
                                    "log": f"the compiler ended with signal {-code}",
                                },
                                b"",
                                b"",
                            )
                        msg = f"the compile worker does not work: {exc}"
                        raise CompilerUnavailable(msg, remedy=_REMEDY) from exc
                    continue
                except BaseException:
                    worker.end()
                    raise
                if answer is None:
                    worker.end()
                    return None
                with self._lock:
                    if self._closed:
                        worker.end()
                    else:
                        self._idle.append(worker)
                return answer
        return None

    def _worker(self, *, fresh: bool) -> _Worker:
        with self._lock:
            while self._idle and not fresh:
                worker = self._idle.pop()
                if worker.process.poll() is None:
                    return worker
                worker.end()
        read_end, write_end = os.pipe()
        argv = [
            sys.executable,
            "-P",
            "-m",
            "cuda_harness.tools.toolchain.worker",
            str(write_end),
            str(_MEMORY_BYTES),
        ]
        process = lasting(
            lambda: subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(write_end,),
                start_new_session=True, env=allowed_environment(), preexec_fn=die_with_parent,
            )
        )  # fmt: skip
        os.close(write_end)
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        return _Worker(process, process.stdin, os.fdopen(read_end, "rb"))

    def _lookup(self, key: str) -> tuple[dict[str, Any], Path] | None:
        path = self._folder / key[:2] / f"{key}.cubin"
        try:
            head, _, body = path.read_bytes().partition(b"\n")
            facts = json.loads(head)
            if (
                not isinstance(facts, dict)
                or facts.get("sha256") != hashlib.sha256(body).hexdigest()
                or not body
            ):
                return None
        except (OSError, ValueError):
            return None
        code = path.with_suffix(".bin")
        try:
            if not code.is_file() or code.read_bytes() != body:
                _write(code, body)
        except OSError:
            return None
        return facts, code

    def _publish(self, key: str, facts: dict[str, Any], cubin: bytes) -> Path:
        """Write the object with its facts; a full disk costs the cache, not the compile."""
        folder = self._folder / key[:2]
        facts["sha256"] = hashlib.sha256(cubin).hexdigest()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _write(folder / f"{key}.bin", cubin)
            _write(folder / f"{key}.cubin", json.dumps(facts).encode() + b"\n" + cubin)
        except OSError as exc:
            msg = f"cannot write the compiled kernel to {str(folder)!r}: {exc.strerror or exc}"
            raise CompilerUnavailable(
                msg, remedy="free disk space, or set XDG_CACHE_HOME to a writable folder"
            ) from exc
        if secrets.randbelow(50) == 0:
            self._trim()
        return folder / f"{key}.bin"

    def _trim(self) -> None:
        files = []
        for path in self._folder.rglob("*.*"):
            with contextlib.suppress(OSError):
                stat = path.stat()
                files.append((stat.st_mtime, stat.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= _KEEP_BYTES:
                return
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size

    def close(self) -> None:
        """End the workers; idempotent."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.end()


def _receive(worker: _Worker, deadline_s: float) -> tuple[dict[str, Any], bytes, bytes] | None:
    """Return the next frame's header, cubin and PTX, `None` at the deadline."""
    if not select.select([worker.answers], [], [], deadline_s)[0]:
        return None
    answer, blobs = read_frame(worker.answers, max_bytes=MAX_OBJECT + MAX_PTX)
    cubin, ptx, *_ = (*blobs, b"", b"")
    return answer, cubin, ptx


def _write(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    temporary.write_bytes(data)
    temporary.replace(path)


def _ok(facts: dict[str, Any], path: Path, arch: str, *, seconds: float, cached: bool) -> CompileOk:
    kernels = tuple(KernelFacts.model_validate(k) for k in facts.get("kernels", ()))
    mixes = tuple(InstructionMix.model_validate(m) for m in facts.get("mixes", ()))
    warnings = tuple(d for d in parse_diagnostics(str(facts.get("log", ""))) if d.severity == "warning")
    return CompileOk(
        arch=arch, cubin_sha256=str(facts["sha256"]), cubin_path=str(path), kernels=kernels, mixes=mixes,
        warnings=warnings[:20], seconds=seconds, cached=cached,
    )  # fmt: skip


def _failed(answer: dict[str, Any], headers: tuple[str, ...], seconds: float) -> CompileResult:
    """Tell the candidate's mistake from a toolchain that lacks something."""
    log, kind = str(answer.get("log", "")), str(answer.get("kind", ""))
    if kind == "DynamicLibNotFoundError" or kind in {"ImportError", "ModuleNotFoundError"}:
        return CompileEnvironment(message=f"NVRTC is not usable: {log[:300]}", remedy=_REMEDY)
    missing = re.search(r"cannot open source file \"([^\"]+)\"", log) or re.search(
        r"could not open source file \"([^\"]+)\"", log
    )
    if missing and (
        missing.group(1) in DEVICE or missing.group(1) in headers or not re.search(r"kernel\.cu\(\d+\)", log)
    ):
        return CompileEnvironment(
            message=f"the allowed header {missing.group(1)!r} is not installed", remedy=_REMEDY
        )
    diagnostics = parse_diagnostics(log)
    if not diagnostics and kind != "crash" and "NVRTC_ERROR_COMPILATION" not in log and "ptxas" not in log:
        return CompileEnvironment(
            message=f"the compiler failed: {kind}: {log[:400]}", remedy="see `cuda-harness doctor`"
        )
    return CompileRejected(diagnostics=diagnostics, log=_head_and_tail(log), seconds=seconds)


def parse_diagnostics(log: str) -> tuple[Diagnostic, ...]:
    """Return errors and warnings of NVRTC and ptxas; `line` only for the kernel's own text."""
    found = []
    for match in re.finditer(
        r"^(\S[^\n(]*)\((\d+)\): (?:catastrophic )?(error|warning)(?: #[\w-]+)?: ([^\n]+)", log, re.MULTILINE
    ):
        own = match.group(1).endswith("kernel.cu")
        severity: Any = match.group(3)
        found.append(
            Diagnostic(
                severity=severity,
                line=int(match.group(2)) if own else None,
                message=match.group(4).strip()[:600],
            )
        )
    for match in re.finditer(r"^ptxas (?:fatal|error)\s*: ([^\n]+)", log, re.MULTILINE):
        found.append(Diagnostic(severity="error", line=None, message=match.group(1).strip()[:600]))
    return tuple(found[:60])


def parse_ptxas(log: str) -> tuple[KernelFacts, ...]:
    """Return registers, shared memory, stack and spills of each entry from a `ptxas -v` log."""
    kernels = []
    for part in re.split(r"Compiling entry function '", log)[1:]:
        name = part.split("'", 1)[0]

        def number(pattern: str, text: str = part) -> int | None:
            match = re.search(pattern, text)
            return int(match.group(1)) if match else None

        used = number(r"Used (\d+) registers")
        kernels.append(
            KernelFacts(
                name=name,
                registers=used,
                barriers=number(r"used (\d+) barriers"),
                shared_bytes=number(r"(\d+) bytes smem") or (0 if used is not None else None),
                constant_bytes=number(r"(\d+) bytes cmem\[0\]"),
                stack_bytes=number(r"(\d+) bytes stack frame"),
                spill_store_bytes=number(r"(\d+) bytes spill stores"),
                spill_load_bytes=number(r"(\d+) bytes spill loads"),
            )
        )
    return tuple(kernels)


def _head_and_tail(text: str) -> str:
    half = _LOG_CHARS // 2
    return text if len(text) <= _LOG_CHARS else f"{text[:half]}\n[...]\n{text[-half:]}"
