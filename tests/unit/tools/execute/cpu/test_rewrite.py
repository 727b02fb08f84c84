"""The rewriter keeps lines, turns shared variables into references and leaves the rest to the shim headers."""

import re

import pytest

from cuda_harness.tools.execute.cpu.rewrite import Rewritten, Unsupported, blanked, rewrite
from cuda_harness.tools.toolchain.source import inspect

HEAD = 'extern "C" __global__ void k(const float* x, float* y, int n) {\n'


def done(source: str) -> Rewritten:
    result = rewrite(source, inspect(source))
    assert isinstance(result, Rewritten), result
    assert result.text.count("\n") == source.count("\n")
    return result


def refused(source: str) -> Unsupported:
    result = rewrite(source, inspect(source))
    assert isinstance(result, Unsupported), result
    return result


def in_kernel(body: str, before: str = "") -> str:
    return done(before + HEAD + body + "\n}\n").text


@pytest.mark.parametrize(
    ("declaration", "typedef", "names"),
    [
        ("__shared__ float s[64];", "typedef float sim_t_s [ 64 ];", ["s"]),
        ("__shared__ float a[2], b[3][4];", "typedef float sim_t_a [ 2 ] , sim_t_b [ 3 ] [ 4 ];", ["a", "b"]),
        ("float __shared__ c;", "typedef float sim_t_c;", ["c"]),
        (
            "__shared__ volatile unsigned int f;",
            "typedef volatile unsigned int sim_t_f;",
            ["f"],
        ),
        (
            "alignas(16) __shared__ char p[32];",
            "typedef __attribute__((aligned(16))) char sim_t_p [ 32 ];",
            ["p"],
        ),
        (
            "__shared__ alignas(float4) char p[32];",
            "typedef __attribute__((aligned(alignof(float4)))) char sim_t_p [ 32 ];",
            ["p"],
        ),
        (
            "static __shared__ union { int i; float f; } u;",
            "typedef union { int i ; float f ; } sim_t_u;",
            ["u"],
        ),
        (
            "__shared__ typename R<float, 256>::TempStorage t;",
            "typedef typename R < float , 256 > :: TempStorage sim_t_t;",
            ["t"],
        ),
    ],
)
def test_shared_variable_becomes_a_reference(declaration: str, typedef: str, names: list[str]) -> None:
    text = in_kernel(declaration)

    assert typedef in text
    for name in names:
        assert f'auto& {name} = ::sim_shared_variable<sim_t_{name}, sim_tag_{name}>("{name}");' in text
    assert "__shared__" not in text


def test_shared_variable_over_two_lines_keeps_them() -> None:
    text = in_kernel("__shared__ float\n  s[4];\nint here = 1;")

    assert text.splitlines()[3] == "int here = 1;"


def test_dynamic_shared_memory_in_a_function_becomes_a_pointer() -> None:
    text = in_kernel("extern __shared__ __align__(16) unsigned char smem[];")

    assert "sim_t_smem* const smem = ::sim_dynamic_shared<sim_t_smem>();" in text
    assert "typedef unsigned char sim_t_smem" in text


def test_dynamic_shared_memory_at_file_scope_is_named_in_each_function_that_uses_it() -> None:
    before = "extern __shared__ float pool[];\n__device__ float other() { return 1.0f; }\n"

    text = in_kernel("y[0] = pool[0];", before)

    kernel = text.splitlines()[2]
    assert kernel.endswith("{ sim_t_pool* const pool = ::sim_dynamic_shared<sim_t_pool>();")
    assert "pool" not in text.splitlines()[1]


def test_return_of_a_kernel_is_announced_and_that_of_a_lambda_is_not() -> None:
    before = "__device__ void f(int n) { if (n) return; }\n"

    lines = in_kernel(
        "if (n > 3) return;\nauto l = [&](int i) { if (i) return; };\nl(1);", before
    ).splitlines()

    assert "return;" in lines[0]
    assert "early" not in lines[0]
    assert lines[2] == "if (n > 3) { ::sim_returned_early(); return; }"
    assert "early" not in lines[3]


def test_a_word_right_after_a_device_variable_stays_a_word() -> None:
    assert "SIM_FENCE SIM_FENCE" in done("__device__ int v;__device__ int w;").text


def test_one_line_constant_becomes_a_definition() -> None:
    text = done('extern "C" __constant__ float t[9];\nextern "C" __device__ float f(float);\n').text

    assert text.splitlines() == [
        'SIM_FENCE extern "C" { SIM_IN_ORDER __constant__ float t[9]; } SIM_GLOBAL(t) SIM_FENCE',
        'extern "C" __device__ float f(float);',
    ]


def test_entries_and_names_of_the_c_library_are_renamed() -> None:
    source = 'extern "C" { __constant__ float gamma[4]; }\nextern "C" __global__ void select(float* y) { y[0] = gamma[1]; }\n'

    result = done(source)

    assert result.kernels == ("select",)
    assert result.renamed == {"select": "select_kernel", "gamma": "gamma_"}
    assert "void select_kernel(float* y) { y[0] = gamma_[1]; }" in result.text


def test_inline_is_not_said_twice() -> None:
    text = done("__device__ __forceinline__ inline int f() { return 1; }\n").text

    assert text == "__device__ __attribute__((always_inline)) inline int f() { return 1; }\n"


def test_comments_and_strings_are_left_alone() -> None:
    body = '// __shared__ float s[4]; return;\nconst char* t = "asm(x) __shared__ int i; return;";'

    text = in_kernel(body)

    assert text.splitlines()[1:3] == body.splitlines()


def test_known_ptx_becomes_code_on_one_line() -> None:
    text = in_kernel('unsigned lane;\nasm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));\ny[0] = lane;')

    assert "asm" not in text
    assert text.splitlines()[3] == "y[0] = lane;"


@pytest.mark.parametrize(
    ("source", "line", "says"),
    [
        (HEAD + '\nasm("frobnicate.x %0;" :: "r"(n));\n}\n', 3, "frobnicate"),
        ("#define S __shared__ float s[4]\n" + HEAD + "S;\n}\n", 1, "macro"),
        (HEAD + "k<<<1, 1>>>(x, y, n);\n}\n", 2, "launched from a kernel"),
    ],
)
def test_what_cannot_run_here_is_named_with_its_line(source: str, line: int, says: str) -> None:
    result = refused(source)

    assert result.line == line
    assert says in result.message


def test_blanked_keeps_length_and_lines() -> None:
    source = 'int a; /* b\n c */ const char* d = "e;"; // f\n#define G(x) \\\n  x + 1\nint h;\n'

    text = blanked(source)

    assert len(text) == len(source)
    assert [i for i, c in enumerate(text) if c == "\n"] == [i for i, c in enumerate(source) if c == "\n"]
    assert text.split() == ["int", "a;", "const", "char*", "d", "=", ";", "int", "h;"]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("__device__ float a[4], *b = nullptr;", ["a", "b"]),
        ("static __device__ __constant__ int c = 3;", ["c"]),
        ("namespace n { __device__ __align__(16) S d{1, 2}; }", ["d"]),
        ("__device__ int (*e)(int, int) = f;", []),
        ("__device__ float g(float v) { return v; }", []),
        ("template <class T> __device__ T h = T(1);", []),
        ("struct __device__ K { int a; };", []),
        ("extern __device__ float l[4];", []),
    ],
)
def test_device_variables_are_announced_to_check_mode(line: str, names: list[str]) -> None:
    assert re.findall(r"SIM_GLOBAL\((\w+)\)", done(line + "\n").text) == names
