"""NVRTC from wheels, for real: what compiles, whose fault a failure is, and what the cache survives."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuda_harness.state.results import (
    CompileEnvironment,
    CompileOk,
    CompileRejected,
    CompileResult,
    CompileTimedOut,
)
from cuda_harness.tools.toolchain import nvrtc
from cuda_harness.tools.toolchain.nvrtc import Compiler

KERNEL = 'extern "C" __global__ void k(float* x) { x[threadIdx.x] = 1.0f; }\n'
HOST_HABITS = """#include <cstdint>
#include <cmath>
#include <cfloat>
#include <limits>
extern "C" __global__ void k(float* x, int32_t n, uint64_t* c) {
  float m = -INFINITY;
  for (int32_t i = 0; i < n; ++i) m = std::max(m, x[i]);
  x[0] = m == -FLT_MAX ? NAN : fminf(m, std::numeric_limits<float>::max());
  c[0] = n < INT_MAX ? UINT64_MAX : 0;
}
"""
SLOW = """constexpr __device__ int f(int n) { return n < 2 ? n : f(n - 1) + f(n - 2); }
template <int N> struct A { static constexpr int v = A<2 * N>::v + A<2 * N + 1>::v + f(18); };
template <int N> struct B { static constexpr int v = f(20 + N % 2) + B<N - 1>::v; };
template <> struct B<0> { static constexpr int v = 0; };
extern "C" __global__ void k(int* x) { x[0] = B<190>::v; }
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    compiler = Compiler(cache=tmp_path_factory.mktemp("cache"), workers=2)
    if isinstance(compiler.compile(KERNEL, arch="sm_90a"), CompileEnvironment):
        pytest.skip("NVRTC is not installed")
    yield compiler
    compiler.close()


@pytest.fixture
def own(shared: Compiler, tmp_path: Path) -> Iterator[Compiler]:
    compiler = Compiler(cache=tmp_path, workers=2)
    yield compiler
    compiler.close()


def good(done: CompileResult) -> CompileOk:
    assert isinstance(done, CompileOk), done
    return done


def workers_of(pid: int) -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and b"toolchain.worker" in (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
    return found


def wait_for(condition: object, seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("arch", ["sm_75", "sm_86", "sm_90a", "sm_120"])
def test_host_habits_just_work(shared: Compiler, arch: str) -> None:
    done = good(shared.compile(HOST_HABITS, arch=arch))
    assert done.kernels[0].name == "k"
    assert (done.kernels[0].registers or 0) > 0
    assert done.warnings == ()


@pytest.mark.parametrize(
    "line",
    [
        '#include "{}"', "#include <{}>", '# /* x */ include "{}"', '#inc\\\nlude "{}"', '%:include "{}"',
        '#define H "{}"\n#include H', '#if __has_include("{}")\n#endif', '#include_next "{}"', '??=include "{}"',
        '/* \\\n*/#include "{}"', "int d = 1'000; // '\n#include \"{}\"", '#include "../../../../../..{}"',
        '\x0c#include "{}"', '\r#include "{}"', '#embed "{}"',
    ],
)  # fmt: skip
def test_no_file_leaks_into_a_result(shared: Compiler, tmp_path: Path, line: str) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("#error leaked_content_4711\nleaked_content_4711 here;\n")
    done = shared.compile(line.format(secret) + "\n" + KERNEL, arch="sm_90a")
    assert isinstance(done, CompileRejected)
    assert "leaked_content" not in done.model_dump_json()


def test_error_keeps_its_line_and_the_word_lock_means_nothing(shared: Compiler) -> None:
    done = shared.compile(
        '#include <cstdint>\nextern "C" __global__ void k(int* x)\n{\n  x[0] = blockIdxx.x;\n}\n',
        arch="sm_90a",
    )
    assert isinstance(done, CompileRejected)
    assert (done.diagnostics[0].line, done.diagnostics[0].severity) == (4, "error")
    assert "blockIdxx" in done.diagnostics[0].message


def test_a_huge_log_is_cut(shared: Compiler) -> None:
    body = "".join(f"  x[0] = undefined_name_of_some_length_{i:06d};\n" for i in range(20_000))
    done = shared.compile(
        f'#pragma unroll\nextern "C" __global__ void k(int* x) {{\n{body}}}\n', arch="sm_90a", deadline_s=120
    )
    assert isinstance(done, CompileRejected)
    assert len(done.log) < 10_000
    assert len(done.diagnostics) <= 60


def test_a_compile_that_never_ends_is_ended_and_the_next_one_works(own: Compiler) -> None:
    done = own.compile(SLOW, arch="sm_90a", deadline_s=0.3)
    assert isinstance(done, CompileTimedOut)
    good(own.compile(KERNEL, arch="sm_90a"))


def test_missing_allowed_header_is_nobodys_fault(own: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "include_folders", lambda: ())
    done = own.compile("#include <cuda_fp16.h>\n" + KERNEL, arch="sm_90a")
    assert isinstance(done, CompileEnvironment)
    assert "cuda-harness[cu13]" in done.remedy


def test_a_hit_keeps_registers_and_spills(own: Compiler) -> None:
    first, second = (good(own.compile(KERNEL, arch="sm_90a")) for _ in range(2))
    assert (first.cached, second.cached) == (False, True)
    assert first.kernels == second.kernels


def test_failures_are_not_cached(own: Compiler, tmp_path: Path) -> None:
    assert isinstance(own.compile("int x = ;", arch="sm_90a"), CompileRejected)
    assert not list(tmp_path.rglob("*.cubin"))


def test_a_worker_killed_in_the_middle_costs_nothing(own: Compiler) -> None:
    results: list[CompileResult] = []
    before = workers_of(os.getpid())
    thread = threading.Thread(
        target=lambda: results.append(own.compile(KERNEL.replace("1.0f", "2.0f"), arch="sm_90a"))
    )
    thread.start()
    assert wait_for(lambda: workers_of(os.getpid()) - before)
    for pid in workers_of(os.getpid()) - before:
        os.kill(pid, signal.SIGKILL)
    thread.join(60)
    good(results[0])


def test_a_worker_whose_thread_has_ended_is_replaced(own: Compiler) -> None:
    thread = threading.Thread(target=lambda: own.compile(KERNEL, arch="sm_90a"))
    thread.start()
    thread.join(60)
    for number in range(3):
        good(own.compile(KERNEL.replace("1.0f", f"{number + 5}.0f"), arch="sm_90a"))


def test_no_worker_outlives_its_killed_owner(shared: Compiler, tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from cuda_harness.tools.toolchain.nvrtc import Compiler\n"
        f"c = Compiler(cache=Path({str(tmp_path)!r})); c.compile({KERNEL!r}, arch='sm_90a'); print('up', flush=True); time.sleep(60)"
    )
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    assert owner.stdout.readline() == b"up\n"
    children = workers_of(owner.pid)
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert children
    assert wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))
