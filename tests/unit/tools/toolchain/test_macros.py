"""Macros that hide a kernel are expanded line for line; all others, and unclear ones, stay."""

import time

import pytest

from cuda_harness.tools.toolchain.macros import expand_hiding, expanded_words
from cuda_harness.tools.toolchain.source import inspect

PARAMETERS = "const float* x, float* y, int n"


@pytest.mark.parametrize(
    "source",
    [
        f'#define ENTRY extern "C" __global__ void\nENTRY k({PARAMETERS}) {{ y[0] = x[0]; }}\n',
        f'#define KERNEL(name) extern "C" __global__ void name({PARAMETERS})\nKERNEL(k) {{ y[0] = x[0]; }}\n',
        f'#define KERNEL(name, ...) extern "C" __global__ void name(__VA_ARGS__)\nKERNEL(k, {PARAMETERS}) {{ y[0] = x[0]; }}\n',
        f'#define G __global__\n#define ENTRY(a, b) extern "C" G void a##b({PARAMETERS})\nENTRY(, k) {{ y[0] = x[0]; }}\n',
    ],
)
def test_a_kernel_behind_a_macro_is_seen(source: str) -> None:
    (kernel,) = inspect(source).kernels

    assert kernel.name == "k"
    assert kernel.is_extern_c
    assert [p.name for p in kernel.parameters] == ["x", "y", "n"]


def test_lines_stay_and_other_macros_are_left_alone() -> None:
    text = "#define TILE 16\n#define ROOM(t,\n#define SHARED(type, name) __shared__ type name[TILE]\nvoid f() {\nSHARED(float,\n  a);\nint b = TILE;\n}\n"

    made = expand_hiding(text)

    assert made.count("\n") == text.count("\n")
    assert made.split("\n")[4:7] == ["__shared__ float a[TILE]", ";", "int b = TILE;"]
    assert "#define TILE 16" in made
    assert "#define SHARED" not in made


@pytest.mark.parametrize(
    "text",
    [
        "#define K __global__\n#undef K\n#define K\nK void f() {}\n",
        "#if 1\n#define S __shared__\n#else\n#define S static __shared__\n#endif\nS int a;\n",
        "#define TILE 16\n__global__ void f() { int a = TILE; }\n",
        'const char* t = "K";\n// no macro hides anything\n',
    ],
)
def test_what_is_unclear_or_hides_nothing_stays(text: str) -> None:
    assert expand_hiding(text) == text


def test_a_bomb_is_given_up_at_once() -> None:
    levels = (
        "\n".join(f"#define B{i} {f'B{i + 1} ' * 50}" for i in range(9)) + "\n#define B9 __shared__\nB0\n"
    )
    began = time.process_time()

    assert expand_hiding(levels) == levels
    assert time.process_time() - began < 2


def test_a_bomb_is_counted_without_being_expanded() -> None:
    doubled = "\n".join(f"#define A{i + 1} {f'A{i} ' * 8}" for i in range(8))
    source = f"#define A0 1.f +\n{doubled}\nvoid f(float* y) {{ y[0] = A8 0.f; }}\n"
    began = time.process_time()

    assert expanded_words(source) > 16_000_000
    assert any("expand to" in r.text for r in inspect(source).violations)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("int a = 3;", 5),
        ("#define N 4\nint a[N];", 6),
        ("#define A B\n#define B A\nA B", 2),
        ("#define P(x) (x + x)\nP(1)", 8),
        ("#if X\n#define L 1 2 3\n#else\n#define L 1\n#endif\nL", 1),
    ],
)
def test_words_are_counted_from_below(source: str, words: int) -> None:
    assert expanded_words(source) == words
