"""What is read out of a kernel's text, and that nothing hides from the reading."""

import re

import pytest

from cuda_harness.tools.toolchain.directives import resolve_includes
from cuda_harness.tools.toolchain.source import MAX_SOURCE, inspect, parse_parameter

KERNEL = '\nextern "C" __global__ void k(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = 1.0f; }\n'
ELSEWHERE = '#include "/etc/hostname"'


def test_a_signature_is_read_with_its_types_and_bounds() -> None:
    facts = inspect(
        "// a remark\n"
        'extern "C" __global__ void __launch_bounds__(128)\n'
        "scale(const float* __restrict__ x, float4 *y, unsigned long long n, double a, bool flag, const void* raw) {}\n"
    )

    kernel = facts.kernel("scale")
    assert kernel is not None
    assert (kernel.is_extern_c, kernel.is_template, kernel.launch_bounds, kernel.line) == (
        True,
        False,
        128,
        3,
    )
    assert [(p.name, p.dtype, p.lanes, p.is_pointer, p.is_const) for p in kernel.parameters] == [
        ("x", "float32", 1, True, True),
        ("y", "float32", 4, True, False),
        ("n", "uint64", 1, False, False),
        ("a", "float64", 1, False, False),
        ("flag", "bool", 1, False, False),
        ("raw", None, 1, True, True),
    ]


@pytest.mark.parametrize(
    ("text", "name", "dtype", "pointer"),
    [
        ("int", "", "int32", False),
        ("unsigned int n", "n", "uint32", False),
        ("long long int", "", "int64", False),
        ("const std::size_t n", "n", "uint64", False),
        ("float x[]", "x", "float32", True),
        ("float** rows", "rows", None, True),
        ("struct Pair p", "p", None, False),
        ("__nv_bfloat16 const *const __restrict__ w", "w", "bfloat16", True),
        ("uint8_t* bytes = nullptr", "bytes", "uint8", True),
    ],
)
def test_a_parameter_is_read(text: str, name: str, dtype: str | None, pointer: bool) -> None:
    found = parse_parameter(text)

    assert (found.name, found.dtype, found.is_pointer) == (name, dtype, pointer)


def test_linkage_and_templates_are_told_apart() -> None:
    facts = inspect(
        "__global__ void plain(int n) {}\n"
        "template <int N> __global__ void made(int n) {}\n"
        'extern "C" { __global__ void first(void) {}\n __global__ void second(int) {} }\n'
        "__device__ float helper(float x) { return x; }\n"
    )

    assert {k.name: (k.is_extern_c, k.is_template, len(k.parameters)) for k in facts.kernels} == {
        "plain": (False, False, 1),
        "made": (False, True, 1),
        "first": (True, False, 0),
        "second": (True, False, 1),
    }


HIDDEN = {
    "plain": ELSEWHERE,
    "angled": "#include </etc/hostname>",
    "indented": "  #  include   " + ELSEWHERE.split(" ", 1)[1],
    "comment inside": '#/* */include /* x */ "/etc/hostname"',
    "digraph": '%:include "/etc/hostname"',
    "spliced word": '#inc\\\nlude "/etc/hostname"',
    "spliced mark": '#\\\ninclude "/etc/hostname"',
    "carriage returns": '#include \\\r\n"/etc/hostname"\r',
    "climbing out": "#include <cub/../../../../etc/hostname>",
    "after a spliced line comment": f"/\\\n/ /*\n{ELSEWHERE}\n// */",
    "after a spliced comment end": f"/* *\\\n/\n{ELSEWHERE}\n/* */",
    "after a trigraph splice": f"#define A ??/\n{ELSEWHERE}",
    "after a form feed": f"\f{ELSEWHERE}",
    "after a vertical tab": f"\v{ELSEWHERE}",
    "after a lone return": f"\r{ELSEWHERE}",
    "after a byte order mark": f"\ufeff{ELSEWHERE}",
    "after a digit separator": f"int a = 1'0; /*'*/\n{ELSEWHERE}\n/*'*/",
    "after a raw string": f'const char* s = R"x(/*)x";\n{ELSEWHERE}\n// */',
    "after a spliced raw prefix": f'const char* s = R\\\n"( " /* )";\n{ELSEWHERE}\n// */',
    "behind a conditional": f"#if 0\n{ELSEWHERE}\n#endif",
    "next": '#include_next "x.h"',
    "embed": '#embed "/etc/hostname"',
    "import": '#import "/etc/hostname"',
    "macro": '#define F "/etc/hostname"\n#include F',
    "has include": "#if __has_include(<stdio.h>)\n#endif",
    "line": '#line 7 "other.cu"',
    "pragma": '#pragma push_macro("x")',
    "pragma operator": '_Pragma("once")',
}


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN.keys())
def test_no_other_file_is_named_however_it_is_hidden(text: str) -> None:
    assert resolve_includes(text + KERNEL).violations
    assert inspect(text + KERNEL).violations


def test_no_compiler_sees_a_trigraph() -> None:
    assert "??" not in resolve_includes('??=include "/etc/hostname"' + KERNEL).source


def test_a_blanked_header_takes_no_comment_with_it() -> None:
    """The rest of a comment that opens behind an allowed header must stay a comment."""
    resolved = resolve_includes(f"#include <cmath> /*\n{ELSEWHERE}\n*/" + KERNEL)

    assert not resolved.violations
    assert "/etc" not in resolved.source


@pytest.mark.parametrize(
    "text",
    [
        f"// {ELSEWHERE}",
        f"/*\n{ELSEWHERE}\n*/",
        f"// spliced \\\n{ELSEWHERE}",
        "#include <cmath>\n#include <cstdint>\n#include <cuda_runtime.h>",
        "#include <cuda_fp16.h>\n#include <cub/block/block_reduce.cuh>\n#include <cuda/std/limits>",
        "#pragma once\n#pragma unroll 4",
        "#define N 1'000'000 // it's many\n#ifdef N\n#if N > 3 && __CUDA_ARCH__ >= 800\n#endif\n#endif",
        "#define TWICE(x) \\\n  ((x) + \\\n   (x))",
    ],
)
def test_what_kernels_honestly_write_is_not_refused(text: str) -> None:
    assert resolve_includes(text + KERNEL).violations == ()


def test_lines_keep_their_numbers_and_device_headers_are_listed() -> None:
    text = "#include <cmath>\n#define A \\\n 1\n/* two\nlines */\n#include <mma.h>\n#include <mma.h>\nint here;\n"

    resolved = resolve_includes(text)

    assert resolved.source.split("\n")[7] == "int here;"
    assert resolved.source.count("\n") == text.count("\n")
    assert resolved.headers == ("mma.h",)
    assert "cmath" not in resolved.source


@pytest.mark.parametrize(
    ("condition", "refused"),
    [
        ("#ifdef __CUDACC_RTC__", True),
        ("#if defined(__GNUC__)", True),
        ("#ifndef __CUDACC__", True),
        ("#if 0\n#elif _MSC_VER", True),
        ("#ifdef linux", True),
        ("#if __CUDA_ARCH__ >= 900", False),
        ("#if TILE > 4", False),
    ],
)
def test_a_conditional_that_splits_executors_is_refused(condition: str, refused: bool) -> None:
    found = inspect(condition + "\n#endif" + KERNEL).violations

    assert bool(found) is refused
    assert all("executors see different programs" in v.text for v in found)


def test_device_state_asm_and_names_are_noted() -> None:
    facts = inspect(
        "__device__ int calls;\n"
        'extern "C" __constant__ float taps[9];\n'
        "__device__ float f(float x);\n"
        'extern "C" __global__ void k(float* y) {\n'
        "  static int seen; __shared__ float tile[32]; static const int four = 4;\n"
        '  asm volatile("mov.u32 %0, %%laneid;" : "=r"(seen));\n'
        "  y[0] = tile[0]; // not_a_name\n"
        "}\n"
    )

    assert {s.name: s.space for s in facts.globals} == {
        "calls": "device",
        "taps": "constant",
        "seen": "static",
    }
    assert {s.name for s in facts.globals if s.is_extern_c and s.space != "static"} == {"taps"}
    assert [a.line for a in facts.asm] == [6]
    assert "tile" in facts.identifiers
    assert "not_a_name" not in facts.identifiers


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("\x7fELF\0\0\0", "binary data"),
        ("x" * (MAX_SOURCE + 1), "longer than"),
        ("void f( {{{ )", "syntax error"),
        ('extern "C" __global__ void k(int n) { y[', "syntax error"),
    ],
)
def test_a_text_that_is_no_kernel_gives_remarks_and_no_exception(text: str, says: str) -> None:
    assert re.search(says, inspect(text).syntax_errors[0].text)


@pytest.mark.parametrize("text", ["", "\\", "#", "/*", '"', 'R"(', "'", "\udc80", "\\\n\\\n\\", "(" * 5000])
def test_broken_texts_are_read_to_their_end(text: str) -> None:
    assert inspect(text).kernels == ()
    assert resolve_includes(text).source.count("\n") == text.count("\n")
