"""What this machine can do: each thing tried for real, with a deadline; each fault with its remedy."""

import os
import platform
import shutil
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from cuda_harness.state.errors import HarnessError
from cuda_harness.state.results import CompileOk
from cuda_harness.state.serde import Model
from cuda_harness.tools.process import ProgramMissing, run

_WHEELS = "pip install 'cuda-harness[cu13]'"
_KERNEL = 'extern "C" __global__ void probe(float *x) { x[threadIdx.x] = 1.0f; }\n'
_HEADERS = '#include <cuda_fp16.h>\n#include <cooperative_groups.h>\nextern "C" __global__ void probe(__half *x) { x[0] = __float2half(1.0f); }\n'
_CCCL = (
    "#include <cub/block/block_reduce.cuh>\n"
    'extern "C" __global__ void probe(float *x) { typedef cub::BlockReduce<float, 32> R; __shared__ R::TempStorage t; x[0] = R(t).Sum(x[1]); }\n'
)


class Finding(Model):
    """One thing that was tried."""

    name: str
    status: Literal["ok", "missing", "broken"]
    detail: str
    remedy: str = ""


def examine(*, base_url: str | None = None, api_key: str | None = None) -> list[Finding]:
    """Return what works here: Python, NVRTC, headers, g++ and the CPU executor, sandbox, GPU, tools, endpoint, disk."""
    checks: tuple[tuple[str, Callable[[], Finding]], ...] = (
        ("python", _python),
        ("nvrtc", lambda: _compiles("nvrtc", _KERNEL, "compiles to a cubin with no GPU or driver")),
        ("cuda headers", lambda: _compiles("cuda headers", _HEADERS, "fp16 and cooperative groups compile")),
        ("cccl", lambda: _compiles("cccl", _CCCL, "cub compiles")),
        ("g++", _host_compiler),
        ("cpu executor", _cpu_executor),
        ("sandbox", _sandbox),
        ("gpu", _gpu),
        ("ncu", lambda: _program("ncu", "CUPTI counts, or profiles are read from the cubin and from times")),
        ("cupti", _cupti),
        (
            "compute-sanitizer",
            lambda: _program(
                "compute-sanitizer", "the CPU executor's check mode still finds races and bounds"
            ),
        ),
        ("model endpoint", lambda: _endpoint(base_url, api_key)),
        ("cache folder", _cache),
    )
    found = []
    for name, check in checks:
        try:
            found.append(check())
        except HarnessError as exc:
            found.append(Finding(name=name, status="broken", detail=exc.message, remedy=exc.remedy))
        except Exception as exc:  # noqa: BLE001 - a probe that breaks is a finding, never the end of the list
            found.append(Finding(name=name, status="broken", detail=f"{type(exc).__name__}: {exc}"[:300]))
    return found


def _python() -> Finding:
    return Finding(
        name="python",
        status="ok",
        detail=f"{platform.python_version()} on {platform.machine()}, {os.cpu_count()} cores",
    )


def _compiles(name: str, source: str, what: str) -> Finding:
    from cuda_harness.tools.toolchain.nvrtc import Compiler

    with tempfile.TemporaryDirectory(prefix="cuda-harness-doctor-") as folder:
        compiler = Compiler(cache=Path(folder), workers=1)
        try:
            done = compiler.compile(source, arch="sm_90a", deadline_s=60.0)
        finally:
            compiler.close()
    if isinstance(done, CompileOk):
        return Finding(name=name, status="ok", detail=f"{what} ({done.seconds:.2f} s)")
    detail = getattr(done, "message", "") or getattr(done, "log", "")[:300] or done.status
    missing = done.status == "environment"
    return Finding(name=name, status="missing" if missing else "broken", detail=detail[:300], remedy=_WHEELS)


def _cupti() -> Finding:
    """Load the library in a process of its own, and plan a counter for a chip: no GPU is needed for that."""
    probe = "from cuda_harness.tools.execute.cuda.cupti import Cupti, Plan; Plan(Cupti(), b'GH100', ['gpu__time_duration.sum'])"
    done = run([sys.executable, "-P", "-c", probe], timeout_s=30)
    if done.ok:
        return Finding(
            name="cupti",
            status="ok",
            detail="plans counters; whether a GPU lets them be counted is seen there",
        )
    why = done.text().strip().splitlines()[-1:] or ["no message"]
    return Finding(
        name="cupti", status="missing", detail=f"{why[0].rpartition('Refused: ')[2][:300]}; only used where ncu is not",
        remedy=_WHEELS,
    )  # fmt: skip


def _host_compiler() -> Finding:
    if shutil.which("g++") is None:
        return Finding(
            name="g++", status="missing", detail="not found: the CPU executor cannot run here",
            remedy="apt-get install g++ (or use a GPU: --executor cuda)",
        )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="cuda-harness-doctor-") as folder:
        source = Path(folder) / "probe.cpp"
        source.write_text('#include <cmath>\nextern "C" float probe(float x) { return std::sqrt(x); }\n')
        done = run(
            ["g++", "-std=c++17", "-shared", "-fPIC", str(source), "-o", str(Path(folder) / "probe.so")],
            timeout_s=60,
        )
    if not done.ok:
        return Finding(
            name="g++",
            status="broken",
            detail=done.text()[:300],
            remedy="install a working g++ with its C++ headers",
        )
    version = run(["g++", "--version"], timeout_s=20).stdout.decode("utf-8", "replace").splitlines()[0]
    return Finding(name="g++", status="ok", detail=version)


def _cpu_executor() -> Finding:
    from cuda_harness.tools.execute.cpu.executor import CpuExecutor
    from cuda_harness.tools.execute.protocol import Buffer, Job, JobOk, LaunchOp, PointerArg, Program

    program = Program(
        (Buffer("x", "float32", 32, "out"),),
        (LaunchOp("probe", (1, 1, 1), (32, 1, 1), 0, (PointerArg("x"),)),),
    )
    parts = []
    executor = CpuExecutor()
    for mode in ("plain", "check"):
        done = executor.run(Job(_KERNEL, program, ({},), mode=mode))
        if not isinstance(done, JobOk) or not (done.calls[0].arrays["x"] == 1.0).all():
            return Finding(
                name="cpu executor",
                status="broken",
                detail=f"{mode} mode: {getattr(done, 'message', 'wrong result')}"[:300],
            )
        parts.append(mode)
    return Finding(name="cpu executor", status="ok", detail=f"runs kernels in {' and '.join(parts)} mode")


def _sandbox() -> Finding:
    from cuda_harness.tools.execute.sandbox import probe

    facts = probe()
    landlock = f"Landlock {facts.landlock_abi}" if facts.landlock_abi else "no Landlock"
    if facts.seccomp:
        return Finding(name="sandbox", status="ok", detail=f"seccomp filters hold; {landlock}")
    return Finding(
        name="sandbox", status="broken", detail=f"seccomp filters do not hold; {landlock}",
        remedy="use a kernel with seccomp; --unsafe-exec runs code you trust without containment",
    )  # fmt: skip


def _gpu() -> Finding:
    """Start a child of the CUDA executor, look at the device, and run a kernel on it."""
    from cuda_harness.state.errors import ExecutorUnavailable
    from cuda_harness.tools.execute.cuda.devices import list_visible
    from cuda_harness.tools.execute.cuda.executor import CudaExecutor
    from cuda_harness.tools.execute.protocol import Buffer, Job, JobOk, LaunchOp, PointerArg, Program

    executor = CudaExecutor(0)
    try:
        facts = executor.facts()
        launch = LaunchOp("probe", (1, 1, 1), (32, 1, 1), 0, (PointerArg("x"),))
        program = Program((Buffer("x", "float32", 32, "out"),), (launch,))
        done = executor.run(Job(_KERNEL, program, ({},), arch=facts["arch"]))
        if not isinstance(done, JobOk) or not (done.calls[0].arrays["x"] == 1.0).all():
            told = getattr(done, "message", "a kernel wrote the wrong numbers")
            remedy = getattr(done, "remedy", "") or "see nvidia-smi and the system's log"
            return Finding(
                name="gpu", status="broken", detail=f"{facts['name']}: {told}"[:300], remedy=remedy
            )
        others = [f"cuda:{d.index} {d.name}" for d in list_visible() if d.index]
    except ExecutorUnavailable as exc:
        return Finding(
            name="gpu", status="missing", detail=exc.reason[:300],
            remedy=exc.remedy or "kernels are verified on the CPU executor; timing needs a GPU with its driver",
        )  # fmt: skip
    finally:
        executor.close()
    cuda = facts["driver_cuda"]
    detail = (
        f"{facts['name']} ({facts['arch']}, {facts['memory_bytes'] / 2**30:.0f} GiB, {facts['free_bytes'] / 2**30:.0f} free) ran a kernel; "
        f"driver for CUDA {cuda // 1000}.{cuda % 1000 // 10}; wheels that fit: [cu{13 if cuda >= 13_000 else 12}]"
    )
    return Finding(name="gpu", status="ok", detail=detail + (f"; also {', '.join(others)}" if others else ""))


def _program(name: str, otherwise: str) -> Finding:
    try:
        done = run([name, "--version"], timeout_s=30)
    except ProgramMissing:
        return Finding(
            name=name,
            status="missing",
            detail=f"not on PATH; {otherwise}",
            remedy="install the CUDA toolkit's tools",
        )
    if not done.ok:
        return Finding(
            name=name, status="broken", detail=done.text()[:200], remedy="reinstall the CUDA toolkit's tools"
        )
    lines = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if "ersion" in line]
    return Finding(name=name, status="ok", detail=(lines or ["works"])[0].strip()[:120])


def _endpoint(base_url: str | None, api_key: str | None) -> Finding:
    name = "model endpoint"
    if not base_url and not api_key:
        return Finding(
            name=name, status="missing", detail="none is configured; the built-in templates are used",
            remedy="set OPENAI_API_KEY, or OPENAI_BASE_URL for any compatible server",
        )  # fmt: skip
    address = (base_url or "https://api.openai.com/v1").rstrip("/") + "/models"
    if not address.startswith(("http://", "https://")):
        return Finding(
            name=name,
            status="broken",
            detail=f"{base_url!r} is no http address",
            remedy="mend OPENAI_BASE_URL",
        )
    request = urllib.request.Request(  # noqa: S310 - http(s) only, checked above
        address, headers={"Authorization": f"Bearer {api_key}"} if api_key else {}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310 - http(s) only, checked above
            answer.read(1 << 16)
            return Finding(
                name=name,
                status="ok",
                detail=f"{base_url or 'the default endpoint'} answers ({answer.status})",
            )
    except urllib.error.HTTPError as exc:
        remedy = (
            "check OPENAI_API_KEY"
            if exc.code in {401, 403}
            else "check the address; some servers do not list models"
        )
        return Finding(name=name, status="broken", detail=f"answers with status {exc.code}", remedy=remedy)
    except (OSError, ValueError) as exc:
        return Finding(
            name=name,
            status="broken",
            detail=f"does not answer: {exc}"[:200],
            remedy="start the server, or mend OPENAI_BASE_URL",
        )


def _cache() -> Finding:
    from cuda_harness.tools.execute.cpu.cache import BuildCache

    root = BuildCache().root
    probe = root / f".probe-{os.getpid()}"
    try:
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as exc:
        return Finding(
            name="cache folder",
            status="broken",
            detail=f"{root} is not writable: {exc.strerror}",
            remedy="set XDG_CACHE_HOME",
        )
    free = shutil.disk_usage(root).free
    status: Literal["ok", "broken"] = "ok" if free > 1 << 30 else "broken"
    return Finding(
        name="cache folder",
        status=status,
        detail=f"{root}, {free >> 30} GiB free",
        remedy="" if status == "ok" else "free disk space",
    )
