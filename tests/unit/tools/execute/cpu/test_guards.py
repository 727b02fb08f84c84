"""Which local variables lie between guard zones in check mode, and that lines and other declarations stay."""

import pytest

from cuda_harness.tools.execute.cpu.guards import guard_locals

RECORD = "struct S { int n; float v[4]; };\n"


def _body(statements: str) -> str:
    return RECORD + f"__global__ void k(float* x, int n) {{ {statements} }}"


@pytest.mark.parametrize(
    "statements",
    [
        "float a[4]; f(a);",
        "float a[4]; float* p = &a[1];",
        "float a[2][2]; f(a[1]);",
        "const int a[] = {1, 2}; const int* p = a;",
        "float* a[4]; float** p = a;",
        "float4 a = *(float4*)x; float* p = reinterpret_cast<float*>(&a);",
        "float4 a; float* p = &a.x;",
        "S a; f(a.v);",
        "int a = 3; f(&a);",
    ],
)
def test_variable_that_a_pointer_may_reach_is_guarded(statements: str) -> None:
    read = guard_locals(_body(statements))
    assert "::sim_guarded<sim_t_a> sim_g_a" in read
    assert "auto& a = sim_g_a.value;" in read


@pytest.mark.parametrize(
    "statements",
    [
        "float a[4]; a[n] = 1; x[0] = a[0] + sizeof(a) / sizeof(a[0]);",
        "float a[2][2]; a[0][n] = 1;",
        "float4 a[2]; a[0].x = a[1].y;",
        "S a; a.v[n] = a.n;",
        "S a; f(a);",
        "int a = 3; f(a);",
        "static int a[3]; f(a);",
        "constexpr int a[2] = {1, 2}; f(a);",
        "__shared__ float a[4]; f(a);",
        "__shared__ __align__(16) float a[4]; f(a);",
        "switch (n) { case 0: float a[3]; f(a); }",
        "float a[4]; f(a); goto end; end: return;",
    ],
)
def test_variable_that_the_compiler_watches_alone_stays(statements: str) -> None:
    assert guard_locals(_body(statements)) == _body(statements)


def test_other_variables_of_the_declaration_keep_their_order_and_values() -> None:
    read = guard_locals(_body("float m = 1, a[4] = {m, 2}, *p = a;"))
    assert "float m = 1; typedef float sim_t_a[4];" in read
    assert "sim_g_a = {{}, {m, 2}, {}};" in read
    assert "float *p = a;" in read


def test_alignment_stays() -> None:
    assert "typedef __attribute__((aligned(16))) float sim_t_a[4];" in guard_locals(
        _body("alignas(16) float a[4]; f(a);")
    )


def test_lines_stay_where_a_declaration_spans_them() -> None:
    source = _body("float a[2] = {\n 1,\n 2},\n  b;\n f(a);")
    assert [line for line in guard_locals(source).split("\n") if "f(a);" in line] == [" f(a); }"]
    assert guard_locals(source).count("\n") == source.count("\n")


def test_constant_functions_stay() -> None:
    source = "constexpr int g() { int a[2] = {1, 2}; return f(a); }"
    assert guard_locals(source) == source
