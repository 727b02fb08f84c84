"""Which conversions are rewritten so that they saturate, and that their lines stay."""

import json

import pytest

from cuda_harness.tools.execute.cpu.casts import has_errors, saturate_casts, saturate_implicit


def _body(statement: str) -> str:
    return f"template <class T> void f(float x, int n, int* p) {{ {statement} }}"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("n = (int)x;", "n = ::sim_to<int>(x);"),
        ("n = (unsigned char)(x * 2) + 1;", "n = ::sim_to<unsigned char>((x * 2)) + 1;"),
        ("n = int(x);", "n = ::sim_to<int>(x);"),
        ("n = static_cast<std::uint8_t>(x);", "n = ::sim_to<std::uint8_t>(x);"),
        ("T t = (T)x; t = T(x);", "T t = ::sim_to<T>(x); t = ::sim_to<T>(x);"),
        ("n = (int)(unsigned)x;", "n = ::sim_to<int>(::sim_to<unsigned>(x));"),
        ("n = static_cast<decltype(n)>(x);", "n = ::sim_to<decltype(n)>(x);"),
    ],
)
def test_cast_to_an_integer_saturates(written: str, read: str) -> None:
    assert saturate_casts(_body(written)) == _body(read)


@pytest.mark.parametrize(
    "statement",
    ["n = (n) - 1;", "n = (n) * 2;", "x = (float)n;", "p = (int*)p;", "(void)n;", "n = fminf(x, 1);", "T(n);", "n = (n)(x);"],
)  # fmt: skip
def test_what_is_no_cast_to_an_integer_stays(statement: str) -> None:
    assert saturate_casts(_body(statement)) == _body(statement)


def test_names_of_the_kernels_own_types_and_macros_count() -> None:
    source = "#define Q(v) ((int)(v) + 1)\n#define BYTE unsigned char\ntypedef unsigned Word;\nint f(float x) { return (BYTE)x + (Word)x; }\n"
    read = saturate_casts(source)
    assert "#define Q(v) (::sim_to<int>((v)) + 1)" in read
    assert "return ::sim_to<BYTE>(x) + ::sim_to<Word>(x);" in read


def test_lines_stay_where_a_cast_spans_them() -> None:
    source = "int f(float x) {\n  return (int)\n    x;\n}\n"
    assert saturate_casts(source).count("\n") == source.count("\n")


def _log(line: int, *columns: int, target: str = "int", file: str = "kernel.cu") -> bytes:
    named = zip(("start", "caret", "finish"), columns, strict=False)
    places = {n: {"file": file, "line": line, "column": c, "byte-column": c} for n, c in named}
    warning = {
        "kind": "warning", "option": "-Wfloat-conversion", "locations": [places],
        "message": f"conversion from \u2018float\u2019 to \u2018{target}\u2019 may change value",
    }  # fmt: skip
    return json.dumps([warning]).encode() + b"\n"


def test_implicit_conversion_becomes_explicit() -> None:
    assert saturate_implicit("int i = a + b;", _log(1, 9, 11, 13)) == "int i = ::sim_to<int>(a + b);"


def test_compound_assignment_is_cut_once() -> None:
    assert saturate_implicit("p[k++] *= x;", _log(1, 1, 8, 11)) == "::sim_multiply_into(p[k++] , x);"


def test_target_is_left_open_within_a_template() -> None:
    text = "template <class T> T f(float x) { T v = x; return v; }"
    at = text.index("x; return") + 1
    assert (
        saturate_implicit(text, _log(1, at, at, at))
        == "template <class T> T f(float x) { T v = ::sim_implicitly(x); return v; }"
    )


def test_call_of_a_macro_is_taken_whole() -> None:
    text = "int i = 1 + TWICE(a[(2)]) ;"
    assert saturate_implicit(text, _log(1, 9, 11, 13)) == "int i = ::sim_to<int>(1 + TWICE(a[(2)])) ;"


@pytest.mark.parametrize(
    "log",
    [b"", b"kernel.cu:1: error: x", b"[not json]", _log(1, 9, 9, 9, file="sim_math.h"), _log(7, 9, 9, 9), _log(1, 9, 9, 9, target="Half")],
)  # fmt: skip
def test_log_that_names_no_place_of_the_kernel_changes_nothing(log: bytes) -> None:
    assert saturate_implicit("int i = a;", log) is None


def test_errors_of_the_text_are_told_from_those_of_the_machine() -> None:
    caret = {"file": "kernel.cu", "line": 3, "column": 7}
    log = json.dumps([{"kind": "error", "message": "no", "locations": [{"caret": caret}]}]).encode()
    assert has_errors(log + b"\ncollect2: failed")
    assert not has_errors(b"ld: undefined reference")
    assert not has_errors(_log(1, 9, 9, 9))


def test_diagnostics_over_several_lines_are_read_as_those_on_one() -> None:
    """From g++ 14 on a list is set out over many lines."""
    listed = [{"kind": "error", "message": "no such thing", "children": [{"kind": "note", "locations": []}]}]
    for log in (
        json.dumps(listed),
        json.dumps(listed, indent=1),
        f"ld: a word\n{json.dumps(listed, indent=2)}\n[broken\n",
    ):
        assert has_errors(log.encode())
    assert not has_errors(b"[]\n[cut off")
