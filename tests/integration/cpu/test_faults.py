"""Check mode names the class, the line and the buffer of a fault, and lets honest kernels pass in silence."""

from dataclasses import replace

import numpy as np
import pytest
from tests.integration.cpu import fault_cases
from tests.integration.cpu.fault_classes import ALL, CLASSES
from tests.integration.cpu.programs import Case, Shape

from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.protocol import (
    FORWARD,
    MIXED,
    FillOp,
    Job,
    JobFault,
    JobNotRun,
    JobOk,
    Mode,
)

FAULTY = [c for c in ALL if c.fault]
HONEST = [c for c in ALL if not c.fault]


@pytest.mark.parametrize("case", FAULTY, ids=lambda c: c.name)
def test_fault_is_caught(case: Case, cpu: CpuExecutor) -> None:
    result = case.run(cpu)

    assert isinstance(result, JobFault), result
    assert result.fault == case.fault, result
    for piece in case.says:
        assert piece in result.message, result.message
    if case.line is not None:
        assert result.evidence["line"] == case.line, result
    assert result.evidence["kernel"] == "k"


@pytest.mark.parametrize("case", HONEST, ids=lambda c: c.name)
def test_honest_kernel_passes(case: Case, cpu: CpuExecutor) -> None:
    result = case.run(cpu)

    assert isinstance(result, JobOk), result
    if case.warns:
        assert any(case.warns in w for w in result.warnings), result.warnings
    else:
        assert result.warnings == ()
    plain = case.run(cpu, "plain")
    assert isinstance(plain, JobOk), plain
    for checked, fast in zip(result.calls, plain.calls, strict=True):
        np.testing.assert_allclose(checked.arrays["y"], fast.arrays["y"], rtol=1e-6)


@pytest.mark.parametrize("name", CLASSES)
def test_each_class_has_three_faults_and_three_look_alikes(name: str) -> None:
    faulty = [c.name for c in CLASSES[name] if c.fault is not None]
    honest = [c.name for c in CLASSES[name] if c.fault is None]

    assert len(set(faulty)) >= 3, faulty
    assert len(set(honest)) >= 3, honest


def test_no_case_is_left_out_of_the_classes() -> None:
    assert {c.name for c in fault_cases.ALL} <= {c.name for c in ALL}


UNWRITTEN = [
    ("tail left out", "int i = threadIdx.x;\nif (i < n - 3) y[i] = x[i];", [61, 62, 63]),
    ("every second element", "int i = threadIdx.x;\nif (i % 2 == 0) y[i] = x[i];", list(range(1, 64, 2))),
    ("nothing at all", "if (n < 0) y[0] = x[0];", list(range(64))),
]


@pytest.mark.parametrize(("name", "body", "missing"), UNWRITTEN, ids=[u[0] for u in UNWRITTEN])
def test_unwritten_elements_are_named_exactly(
    name: str, body: str, missing: list[int], cpu: CpuExecutor
) -> None:
    result = Case(name, body).run(cpu)

    assert isinstance(result, JobOk), result
    call = result.calls[0]
    assert call.unwritten["y"] == 4 * len(missing)
    assert np.flatnonzero(call.unwritten_at["y"]).tolist() == missing


WRITTEN = {
    "a value like poison": ("", "int i = threadIdx.x;\ny[i] = i < 63 ? x[i] : __int_as_float(0x7fc00000);"),
    "bytes of the garbage that shared memory starts with": (
        "",
        "y[threadIdx.x] = __int_as_float(0xcdcdcdcd);",
    ),
    "by memset": ("", "if (threadIdx.x == 0) memset(y, 0, n * 4);"),
    "as structs that a function returns": (
        "struct P { float a, b; };\n__device__ __noinline__ P both(float a) { P p; p.a = a; p.b = -a; return p; }\n",
        "int i = threadIdx.x;\nif (i < 32) reinterpret_cast<P*>(y)[i] = both(x[i]);",
    ),
}


@pytest.mark.parametrize(("before", "body"), WRITTEN.values(), ids=WRITTEN.keys())
def test_bytes_that_were_written_count_as_written(before: str, body: str, cpu: CpuExecutor) -> None:
    result = Case("written", body, before=before).run(cpu)

    assert isinstance(result, JobOk), result
    assert result.calls[0].unwritten == {"y": 0}


LIMITS = [
    (Shape(block=(2048, 1, 1)), ("2048", "1024")),
    (Shape(block=(1, 1, 65)), ("65", "64")),
    (Shape(block=(32, 32, 2)), ("2048", "1024")),
    (Shape(grid=(1, 70_000, 1)), ("70000", "65535")),
    (Shape(shared_bytes=300_000), ("300000", "232448")),
]


@pytest.mark.parametrize(("shape", "says"), LIMITS)
def test_launch_beyond_a_limit_is_explained(shape: Shape, says: tuple[str, ...], cpu: CpuExecutor) -> None:
    result = Case("limit", "y[threadIdx.x % n] = x[0];", shape=shape).run(cpu)

    assert isinstance(result, JobFault), result
    assert result.fault == "launch_config"
    for piece in says:
        assert piece in result.message.replace(",", "").replace("_", ""), result.message


def test_what_the_host_compiler_refuses_names_the_line_and_blames_nobody(cpu: CpuExecutor) -> None:
    """NVRTC judges whether a kernel compiles; g++ over the shim only says what it cannot run."""
    result = Case("typo", "int i = threadIdx.x;\ny[i] = undeclared_name;").run(cpu)

    assert isinstance(result, JobNotRun), result
    assert result.reason == "unsupported"
    assert "undeclared_name" in result.message
    assert result.evidence["line"] == 3


SHARED_LIMITS = {
    "static beyond 48 KiB": ("__shared__ float s[13000];\ns[threadIdx.x] = x[0];\n__syncthreads();\ny[threadIdx.x] = s[63 - threadIdx.x];", 0, "compile"),
    "static and dynamic beyond 227 KiB": ("__shared__ float s[12000];\nextern __shared__ float d[];\nd[threadIdx.x] = s[threadIdx.x] = x[0];\n__syncthreads();\ny[threadIdx.x] = s[63 - threadIdx.x] + d[0];", 190_000, "launch_config"),
    "48 KiB of static": ("__shared__ float s[12288];\ns[threadIdx.x] = x[0];\n__syncthreads();\ny[threadIdx.x] = s[63 - threadIdx.x];", 0, None),
    "both within 227 KiB": ("__shared__ float s[8000];\nextern __shared__ float d[];\nd[threadIdx.x] = s[threadIdx.x] = x[0];\n__syncthreads();\ny[threadIdx.x] = s[63 - threadIdx.x] + d[0];", 190_000, None),
}  # fmt: skip


@pytest.mark.parametrize(("body", "dynamic", "fault"), SHARED_LIMITS.values(), ids=SHARED_LIMITS.keys())
@pytest.mark.parametrize("mode", ["plain", "check"])
def test_shared_memory_has_the_bounds_of_a_gpu(
    body: str, dynamic: int, fault: str | None, mode: Mode, cpu: CpuExecutor
) -> None:
    result = Case("shared", body, shape=Shape(shared_bytes=dynamic)).run(cpu, mode)

    assert (result.fault if isinstance(result, JobFault) else None) == fault, result
    assert isinstance(result, (JobFault, JobOk)), result


@pytest.mark.parametrize(
    "body", ["int* p = new int[n];\nw[0] = (long)p;\ny[0] = p[0] = 1;", "w[0] = (long)malloc(n);\ny[0] = 1;"]
)
def test_a_heap_on_the_device_is_unsupported_by_name(body: str, cpu: CpuExecutor) -> None:
    result = Case("heap", body).run(cpu)

    assert isinstance(result, JobNotRun), result
    assert result.reason == "unsupported"
    assert "heap" in result.message


def test_a_kernel_behind_a_macro_runs(cpu: CpuExecutor) -> None:
    head = 'extern "C" __global__ void name(const float* x, float* y, float* w, int n)'
    source = f"#define KERNEL(name) {head}\n#define ROOM(t, s) __shared__ t s[64]\nKERNEL(k) {{\nROOM(float, s);\ns[threadIdx.x] = x[threadIdx.x];\n__syncthreads();\ny[threadIdx.x] = s[63 - threadIdx.x];\n}}\n"
    x = np.arange(64, dtype=np.float32)

    result = cpu.run(Job(source, Shape().program(), ({"x": x},), mode="check"))

    assert isinstance(result, JobOk), result
    np.testing.assert_array_equal(result.calls[0].arrays["y"], x[::-1])


ORDERED = "int i = blockIdx.x * blockDim.x + threadIdx.x;\ny[i] = atomicAdd(&place, 1);\n__syncthreads();\nif (i == 0) w[0] = 0;"


def test_blocks_and_threads_start_in_orders_by_the_seed(cpu: CpuExecutor) -> None:
    case = Case("order", ORDERED, before="__device__ int place = 0;\n", shape=Shape(n=256, grid=(4, 1, 1)))
    seen = []
    for poison in range(3):
        result = cpu.run(replace(case.job("check"), poison=poison))
        assert isinstance(result, JobOk), result
        seen.append(result.calls[0].arrays["y"].tolist())

    assert seen[0] == list(range(256))
    assert seen[1] == list(reversed(range(256)))
    assert sorted(seen[2]) == seen[0]
    assert seen[2] not in seen[:2]


@pytest.mark.parametrize("poison", [1, 2])
@pytest.mark.parametrize("mode", ["plain", "check"])
def test_a_block_that_waits_for_an_earlier_one_still_ends(poison: int, mode: Mode, cpu: CpuExecutor) -> None:
    (case,) = [c for c in ALL if c.name == "a spin on another block's flag"]

    result = cpu.run(replace(case.job(mode), poison=poison, deadline_s=3.0))

    assert isinstance(result, JobOk), result


@pytest.mark.parametrize(
    "name",
    [
        "write one past the end",
        "read one past the end",
        "scratch never written",
        "device variable one past its end",
    ],
)
def test_an_access_is_named_by_line_and_column(name: str, cpu: CpuExecutor) -> None:
    (case,) = [c for c in ALL if c.name == name]

    result = case.run(cpu)

    assert isinstance(result, JobFault), result
    text = case.source.splitlines()[result.evidence["line"] - 1]
    statement = text.split("//")[0]
    assert 1 <= result.evidence["column"] <= len(statement.rstrip())
    assert statement[result.evidence["column"] - 1] not in " ;"


def test_a_column_is_the_authors_where_the_text_was_edited(cpu: CpuExecutor) -> None:
    body = "float a[4] = {}; float* p = a; p[0] = 1; int i = (int)x[0] + (int)x[1]; y[i + 99] = *p;  // HERE"
    case = Case("edited", body)

    result = case.run(cpu)

    assert isinstance(result, JobFault), result
    text = case.source.splitlines()[result.evidence["line"] - 1]
    assert text[result.evidence["column"] - 1 :].startswith(("y[i + 99]", "[i + 99]", "= *p"))


_LARGEST = "__device__ int* words(float* y) { return (int*)y; }\n"
_GUESS = (
    "int i = blockIdx.x * blockDim.x + threadIdx.x, mine = i * 7 % 512, seen = *(volatile int*)words(y);\n"
)
LOST = {
    "a swap tried once": _GUESS + "if (mine > seen) atomicCAS(words(y), seen, mine);",
    "an exchange after a comparison": _GUESS + "if (mine > seen) atomicExch(words(y), mine);",
}
KEPT = {
    "a swap tried until it holds": _GUESS
    + "while (mine > seen) { int old = atomicCAS(words(y), seen, mine); if (old == seen) break; seen = old; }",
    "a maximum": "atomicMax(words(y), (blockIdx.x * blockDim.x + threadIdx.x) * 7 % 512);",
}


@pytest.mark.parametrize("name", [*LOST, *KEPT])
@pytest.mark.parametrize("grid", [1, 8])
def test_an_update_is_lost_where_threads_get_in_each_others_way(
    name: str, grid: int, cpu: CpuExecutor
) -> None:
    shape = Shape(n=grid * 64, m=1, grid=(grid, 1, 1))
    case = Case(name, (LOST | KEPT)[name], before=_LARGEST, shape=shape)
    zeroed = replace(case.job("check").program, ops=(FillOp("y", bytes(4)), *shape.program().ops))
    largest = max(i * 7 % 512 for i in range(grid * 64))
    found = {}
    for order in (FORWARD, MIXED):
        result = cpu.run(replace(case.job("check"), program=zeroed, poison=order))
        assert isinstance(result, JobOk), result
        found[order] = int(result.calls[0].arrays["y"].view(np.int32)[0])
    assert found[FORWARD] == largest
    assert (found[MIXED] == largest) is (name in KEPT)


def test_many_threads_that_swap_one_word_end_soon(cpu: CpuExecutor) -> None:
    body = KEPT["a swap tried until it holds"].replace("mine = i * 7 % 512", "mine = i")
    shape = Shape(n=4096, m=1, grid=(16, 1, 1), block=(256, 1, 1))
    case = Case("crowd", body, before=_LARGEST, shape=shape)
    zeroed = replace(case.job("check").program, ops=(FillOp("y", bytes(4)), *shape.program().ops))
    result = cpu.run(replace(case.job("check"), program=zeroed, poison=MIXED))
    assert isinstance(result, JobOk), result
    assert int(result.calls[0].arrays["y"].view(np.int32)[0]) == 4095
