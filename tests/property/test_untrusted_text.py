"""Text of models and tools may hold anything: readers answer, and never raise anything of their own."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cuda_harness.agents.arbiter import without_comments
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.suite import Case, Inputs
from cuda_harness.tools.synthesize.formula import vote
from cuda_harness.tools.synthesize.properties import read_properties
from cuda_harness.tools.synthesize.reference import Truth
from cuda_harness.tools.toolchain.ptx import instruction_mixes
from cuda_harness.tools.verify.sanitizer_log import TOOLS, parse_log

TOKENS = ["y[i,j]", "y", "x[i,j]", "x[i,k]", "x[i][j]", "=", "+", "-", "*", "/", "^", "**", "(", ")", "[", "]", ",", "sum_k", "max_{j}", "sum_{k<=j}",
          "exp", "log(", "sqrt(", "where(", "argmax_k", "i", "j", "k", "n", "m", "a", "0", "1e308", "-7", "2.5", "?", ":", "if", "else", "<", "|",
          "__import__('os')", "x.T", "lambda", "\n", "é", "\0", "1e400", "mean_i", "prod_k"]  # fmt: skip
FORMULAS = st.lists(st.sampled_from(TOKENS), max_size=14).map(" ".join) | st.text(max_size=60)
X = np.array([[0.5, -1.0, 2.0], [3.0, 0.25, 0.0]], dtype=np.float32)


def an_ir(formula: str) -> KernelIR:
    return KernelIR.model_validate({
        "name": "t", "dims": [{"name": "n", "value": 2}, {"name": "m", "value": 3}],
        "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n", "m"]},
                    {"name": "y", "role": "out", "dtype": "float32", "shape": ["n", "m"]}],
        "scalars": [{"name": "a", "dtype": "float32", "value": 2.0}],
        "steps": [{"id": "s", "op": "o", "reads": ["x"], "writes": ["y"], "formula": formula}],
    })  # fmt: skip


@settings(max_examples=400)
@given(formula=FORMULAS | st.builds("y[i,j] = {}".format, FORMULAS))
def test_any_formula_is_a_vote_or_none(formula: str) -> None:
    case = Case(id="c", stage="tiny", dims={"n": 2, "m": 3}, scalars={"a": 2.0})
    found = vote(an_ir(formula[:4_000]), [case], {"c": {"x": X}}, {"c": Truth({"y": X.astype(float)}, {})})

    assert found.reason
    assert (found.against is None) or found.cases > 0


def test_a_formula_that_grows_without_end_is_stopped() -> None:
    deep = "y[i,j] = " + " + ".join(["sum_{k,l} sum_{p,q} sum_{r,s} x[k,l]*x[p,q]*x[r,s]"] * 9)
    nested = "y[i,j] = " + "-" * 3_000 + "x[i,j]"
    case = Case(id="c", stage="tiny", dims={"n": 40, "m": 40}, scalars={"a": 2.0})
    x = np.ones((40, 40), np.float32)
    for formula in (deep, nested):
        found = vote(an_ir(formula), [case], {"c": {"x": x}}, {"c": Truth({"y": x.astype(float)}, {})})
        assert found.cases == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12), lambda c: st.lists(c, max_size=4) | st.dictionaries(st.sampled_from(["kind", "output", "tensor", "axis", "value", "low", "z"]), c, max_size=5), max_leaves=12
)  # fmt: skip


@given(data=JSON)
def test_any_json_is_properties_or_a_note(data: Any) -> None:
    found, notes = read_properties(an_ir("y[i,j] = x[i,j]"), Inputs(), data)

    assert isinstance(found, list)
    assert all(isinstance(n, str) and len(n) <= 600 for n in notes)


LINES = st.lists(
    st.sampled_from([
        ".visible .entry k(", ".func (.param .b32 r) f(", ")", "{", "}", "\t.loc 1 7 5", ".loc 99999999999 1 1", "  add.f16 %a, %b, %c;", "@%p1 bra L;",
        "ld.global.v9.f99 x;", '.file 1 "kernel.cu"', "call.uni f, (a);", "f,", "mma", "cvt.f32", "cvt", ";;;", "ld", "wmma.mma.sync",
        "========= Invalid __global__ write of size 4 bytes", "=========     at k+0x10 in kernel.cu:99999999999999999999", "=========", "========= ERROR SUMMARY: x",
        "=========     by thread (1,2,3) in block (4,5,6)", "=========     at", "========= Warning: Race reported between",
    ]) | st.text(max_size=30),
    max_size=25,
)  # fmt: skip


@given(lines=LINES)
def test_any_text_is_ptx_or_a_log_with_or_without_findings(lines: list[str]) -> None:
    text = "\n".join(lines)

    assert all(m.total > 0 for m in instruction_mixes(text))
    for tool in TOOLS:
        assert all(f.tool == tool and f.message for f in parse_log(tool, text).findings)


PIECES = [
    "def f():\n    'PLEA'\n    return 1\n",
    "x = 1  # PLEA\n",
    "'PLEA'\n",
    "# PLEA\n",
    "x = (\n    2  # PLEA\n)\n",
]


@given(pieces=st.lists(st.sampled_from(PIECES), max_size=6), noise=st.text(max_size=60))
def test_sources_are_shown_without_their_authors_words(pieces: list[str], noise: str) -> None:
    shown = without_comments("x = 0\n" + "".join(pieces))

    assert "PLEA" not in shown
    assert shown.startswith("x = 0")
    assert isinstance(without_comments(noise), str)
