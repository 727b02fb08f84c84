"""NVRTC behind a worker: whose fault it is, the kernel's own lines, a cache that heals."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cuda_harness.state.results import CompileEnvironment, CompileOk, CompileRejected, CompileTimedOut
from cuda_harness.state.targets import known_targets
from cuda_harness.tools.toolchain.nvrtc import Compiler, parse_diagnostics, parse_ptxas

pytest.importorskip("cuda.core")
ONE = 'extern "C" __global__ void k(float* y) { y[threadIdx.x] = 1.0f; }\n'


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compiler]:
    found = Compiler(cache=tmp_path_factory.mktemp("cache"), workers=2)
    yield found
    found.close()


def fresh(text: str, note: str) -> str:
    """The text with a remark of its own, so that no other test's cache entry answers."""
    return f'{text}static_assert(sizeof("{note}") > 1, "");\n'


def test_what_models_write_all_the_time_compiles(compiler: Compiler) -> None:
    done = compiler.compile(
        "#include <cstdint>\n#include <cmath>\n#include <cfloat>\n#include <limits>\n#include <cuda_runtime.h>\n"
        'extern "C" __global__ void k(float* y, std::uint32_t n, int64_t m) {\n'
        "  y[0] = fmaxf(-FLT_MAX, std::sqrt(float(n))) + INFINITY + M_PI + float(m) + UINT32_MAX + INT_MAX;\n"
        "  y[1] = std::numeric_limits<float>::max() + NAN;\n}\n",
        arch="sm_90a",
    )

    assert isinstance(done, CompileOk), done
    assert Path(done.cubin_path).read_bytes().startswith(b"\x7fELF")
    assert done.kernels[0].name == "k"
    assert (done.kernels[0].registers or 0) > 0


@pytest.mark.parametrize(
    ("before", "line"), [("", 2), ("#include <cmath>\n", 3), ("#define A \\\n  1\n/* a\nb */\n", 6)]
)
def test_an_error_has_the_kernels_own_line(compiler: Compiler, before: str, line: int) -> None:
    done = compiler.compile(
        before + 'extern "C" __global__ void k(float* y) {\n  y[0] = wrong_name;\n}\n',
        arch="sm_90a",
        macros={"B": 4},
    )

    assert isinstance(done, CompileRejected)
    assert [(d.severity, d.line) for d in done.diagnostics] == [("error", line)]
    assert "wrong_name" in done.diagnostics[0].message


@pytest.mark.parametrize(
    "text",
    [
        '#include "{0}"\n', "#include <{0}>\n", '%:include "{0}"\n', '#inc\\\nlude "{0}"\n', '/\\\n/ /*\n#include "{0}"\n// */\n',
        '#define A ??/\n#include "{0}"\n', '#include <cmath> /*\n#include "{0}"\n*/\n', '\f#include "{0}"\n',
        '#define F "{0}"\n#include F\n', '??=include "{0}"\n',
    ],
)  # fmt: skip
def test_no_byte_of_another_file_reaches_a_log(compiler: Compiler, tmp_path: Path, text: str) -> None:
    secret = tmp_path / "secret.h"
    secret.write_text("int XYZZY_IN_THE_FILE = undeclared_there;\n#error XYZZY_IN_AN_ERROR\n")

    done = compiler.compile(text.format(secret) + ONE, arch="sm_90a")

    assert "XYZZY" not in done.model_dump_json()


def test_device_headers_compile(compiler: Compiler) -> None:
    done = compiler.compile(
        '#include <cuda_fp16.h>\n#include <cooperative_groups.h>\nextern "C" __global__ void k(__half* y) {\n'
        "  auto block = cooperative_groups::this_thread_block(); block.sync(); y[0] = __float2half(1.0f);\n}\n",
        arch="sm_80",
    )

    assert isinstance(done, CompileOk), done


@pytest.mark.parametrize("include", ["", "#include <cuda.h>\n", "#include <cuda/barrier>\n"])
def test_a_tensor_map_is_a_parameter_with_and_without_headers_that_name_it(
    compiler: Compiler, include: str
) -> None:
    text = 'extern "C" __global__ void k(const __grid_constant__ CUtensorMap m, float *y) { y[0] = sizeof(m) + (float)(size_t)&m; }'
    done = compiler.compile(include + text, arch="sm_90a")
    assert isinstance(done, CompileOk), done


def test_flags_and_macros_do_not_leak_from_one_compile_to_the_next(compiler: Compiler) -> None:
    text = 'extern "C" __global__ void k(float* y) { y[0] = __expf(y[1]) / y[2] + sinf(y[3]); }\n'
    plain = compiler.compile(text, arch="sm_90a")
    fast = compiler.compile(text, arch="sm_90a", fast_math=True)
    other = Compiler(cache=Path(str(plain.cubin_path)).parents[2] / "second", workers=1)  # type: ignore[union-attr]
    try:
        other.compile(text, arch="sm_80", fast_math=True, max_registers=32, macros={"LEAK": 1})
        again = other.compile(text, arch="sm_90a")
        leak = other.compile("#ifdef LEAK\n#error leaked\n#endif\n" + text, arch="sm_90a")
    finally:
        other.close()

    assert isinstance(plain, CompileOk)
    assert isinstance(fast, CompileOk)
    assert isinstance(again, CompileOk)
    assert isinstance(leak, CompileOk)
    assert fast.cubin_sha256 != plain.cubin_sha256
    assert again.cubin_sha256 == plain.cubin_sha256
    assert not again.cached


@pytest.mark.parametrize("damage", ["truncated", "foreign", "empty", "changed", "object"])
def test_a_damaged_cache_entry_heals(compiler: Compiler, damage: str) -> None:
    text = fresh(ONE, damage)
    first = compiler.compile(text, arch="sm_90a")
    assert isinstance(first, CompileOk)
    code = Path(first.cubin_path)
    entry = code.with_suffix(".cubin")
    data = entry.read_bytes()
    match damage:
        case "truncated":
            entry.write_bytes(data[: len(data) // 2])
        case "foreign":
            entry.write_bytes(b"[1, 2]\nELF")
        case "empty":
            entry.write_bytes(b"")
        case "changed":
            entry.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        case _:
            code.write_bytes(b"short")

    again = compiler.compile(text, arch="sm_90a")

    assert isinstance(again, CompileOk)
    assert again.cached is (damage == "object")
    assert Path(again.cubin_path).read_bytes() == data.partition(b"\n")[2]
    assert compiler.compile(text, arch="sm_90a").cached  # type: ignore[union-attr]


def test_two_compilers_share_one_cache(tmp_path: Path) -> None:
    pair = [Compiler(cache=tmp_path, workers=1) for _ in range(2)]
    found: list[Any] = []
    threads = [threading.Thread(target=lambda c=c: found.append(c.compile(ONE, arch="sm_90a"))) for c in pair]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for one in pair:
        one.close()

    assert [type(f) for f in found] == [CompileOk, CompileOk]
    assert found[0].cubin_sha256 == found[1].cubin_sha256
    assert not list(tmp_path.rglob(".*"))


def test_a_killed_worker_is_replaced(compiler: Compiler) -> None:
    assert isinstance(compiler.compile(fresh(ONE, "before"), arch="sm_90a"), CompileOk)
    for worker in list(compiler._idle):
        os.kill(worker.process.pid, signal.SIGKILL)

    assert isinstance(compiler.compile(fresh(ONE, "after"), arch="sm_90a"), CompileOk)


def test_endless_templates_are_the_kernels_fault(compiler: Compiler) -> None:
    text = "template <int N> struct T { static const int v = T<N + 1>::v + T<N + 2>::v; };\n"

    done = compiler.compile(
        text + 'extern "C" __global__ void k(int* y) { y[0] = T<0>::v; }\n', arch="sm_90a", deadline_s=10
    )

    assert isinstance(done, CompileRejected | CompileTimedOut)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"status": "failed", "kind": "DynamicLibNotFoundError", "log": "libnvrtc.so"}, "NVRTC is not usable"),
        ({"status": "failed", "kind": "ModuleNotFoundError", "log": "No module named 'cuda'"}, "NVRTC is not usable"),
        (
            {"status": "failed", "kind": "NVRTCError",
             "log": 'kernel.cu(1): catastrophic error: cannot open source file "cuda_fp16.h"\nNVRTC_ERROR_COMPILATION'},
            "'cuda_fp16.h' is not installed",
        ),
        ({"status": "failed", "kind": "RuntimeError", "log": "something else"}, "the compiler failed: RuntimeError"),
    ],
)  # fmt: skip
def test_a_broken_toolchain_is_not_the_kernels_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any], says: str
) -> None:
    compiler = Compiler(cache=tmp_path)
    monkeypatch.setattr(compiler, "_ask", lambda _job, _deadline: (answer, b"", b""))

    done = compiler.compile("#include <cuda_fp16.h>\n" + ONE, arch="sm_90a")

    assert isinstance(done, CompileEnvironment), done
    assert says in done.message
    assert done.remedy


def test_a_cache_that_cannot_be_written_is_the_environments_fault(tmp_path: Path) -> None:
    (tmp_path / "cubin").write_text("a file where the folder should be")
    compiler = Compiler(cache=tmp_path)
    try:
        done = compiler.compile(ONE, arch="sm_90a")
    finally:
        compiler.close()

    assert isinstance(done, CompileEnvironment)
    assert "cannot write the compiled kernel" in done.message


@pytest.mark.slow
@pytest.mark.parametrize("arch", known_targets())
def test_every_known_target_compiles(compiler: Compiler, arch: str) -> None:
    done = compiler.compile(ONE, arch=arch)

    assert isinstance(done, CompileOk), done


def test_logs_are_read() -> None:
    log = (
        'kernel.cu(7): error: identifier "a" is undefined\nkernel.cu(9): warning #177-D: unused\n'
        "/x/cub.cuh(3): error: inner\nptxas fatal   : (C7) too much\n"
        "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 24 registers, used 1 barriers, 4096 bytes smem\n"
    )

    assert [(d.severity, d.line) for d in parse_diagnostics(log)] == [
        ("error", 7), ("warning", 9), ("error", None), ("error", None),
    ]  # fmt: skip
    (facts,) = parse_ptxas(log)
    assert (facts.registers, facts.shared_bytes, facts.spill_store_bytes, facts.spill_load_bytes) == (
        24,
        4096,
        4,
        12,
    )
