"""Expressions in C++ have the values that `state.expr` gives, and are refused where it refuses."""

import shutil
import subprocess
from pathlib import Path

import pytest

from cuda_harness.state.expr import Expr, ExprError
from cuda_harness.tools.export.exported.expressions import KernelError, evaluate
from cuda_harness.tools.export.expression import to_cpp

ROOT = Path(__file__).resolve().parents[4]
TEXTS = (
    "a + b", "a - b", "a * b", "a // b", "a % b", "-a // b", "-a % b", "a // -b", "a % -b", "-a", "+a", "a ** 3",
    "(0 - a) ** 2", "(0 - a) ** 3", "a ** b", "cdiv(a, b)", "cdiv(0 - a, b)", "cdiv(a, -b)", "min(a, b, 3)", "max(a, 2 * b)",
    "log2_ceil(a)", "pow2_ceil(a)", "a < b", "a <= b < 100", "a == b != 7", "a if a > b else b",
    "(a // b if b else 0)", "num_sms * blocks_per_sm('k')", "a * b * a * b * a", "1 if a else 2", "a >= 1 > b",
    "9223372036854775807", "9223372036854775807 + a", "0 - 9223372036854775807 - b",
)  # fmt: skip
VALUES = (
    (0, 1),
    (1, 0),
    (1, 1),
    (7, 3),
    (3, 7),
    (64, 2),
    (1000, 33),
    (2**31, 5),
    (2**62, 2),
    (2**62 + 1, 1),
    (5, 64),
)


def oracle(text: str, a: int, b: int) -> int | None:
    try:
        return Expr(text).evaluate({"a": a, "b": b, "num_sms": 132}, lambda _kernel: 2)
    except ExprError:
        return None


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[int | None]:
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    names = {"a": "a", "b": "b", "num_sms": "132LL"}
    cases = "".join(
        f"  if (which == {i}) return {to_cpp(Expr(t), names, lambda _k: '2LL')};\n"
        for i, t in enumerate(TEXTS)
    )
    # Each value in a child of its own: a refusal ends the program.
    text = (
        '#include "recording_cuda.h"\n#include <sys/wait.h>\n#include <unistd.h>\n'
        + (ROOT / "tools" / "export" / "host.h").read_text()
        + f"using namespace host;\ni64 value(int which, i64 a, i64 b) {{\n{cases}  return 0;\n}}\n"
        + "int main() {\n  const i64 values[][2] = {"
        + ", ".join(f"{{{a}LL, {b}LL}}" for a, b in VALUES)
        + f"}};\n  for (int w = 0; w < {len(TEXTS)}; ++w) for (auto& v : values) {{\n"
        '    std::fflush(stdout);\n    if (fork() == 0) { std::printf("%lld\\n", value(w, v[0], v[1])); return 0; }\n'
        '    int s = 0; wait(&s); if (s != 0) std::printf("refused\\n");\n  }\n}\n'
    )
    folder = tmp_path_factory.mktemp("expr")
    (folder / "e.cpp").write_text(text)
    argv = [
        "g++",
        "-std=c++17",
        "-Wno-unused",
        f"-I{ROOT / 'tests' / 'fakes'}",
        str(folder / "e.cpp"),
        "-o",
        str(folder / "e"),
    ]
    made = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stderr[:3000]
    done = subprocess.run([str(folder / "e")], capture_output=True, text=True, timeout=60, check=True)
    return [None if line == "refused" else int(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("index", range(len(TEXTS)), ids=list(TEXTS))
def test_cpp_agrees(index: int, printed: list[int | None]) -> None:
    found = printed[index * len(VALUES) : (index + 1) * len(VALUES)]
    assert found == [oracle(TEXTS[index], a, b) for a, b in VALUES]


@pytest.mark.parametrize("text", TEXTS)
def test_python_agrees(text: str) -> None:
    for a, b in VALUES:
        try:
            found: int | None = evaluate(text, {"a": a, "b": b, "num_sms": 132}, lambda _kernel: 2)
        except KernelError:
            found = None
        assert found == oracle(text, a, b), (a, b)


@pytest.mark.parametrize("text", ["a.b", "a()", "[a]", "'a'", "lambda: a", "c", "a @ b", "a ** -1"])
def test_python_evaluates_nothing_else(text: str) -> None:
    with pytest.raises(KernelError):
        evaluate(text, {"a": 1, "b": 2}, lambda _kernel: 2)
