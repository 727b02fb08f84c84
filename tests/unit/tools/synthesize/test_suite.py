"""The suite: truths, cache, quorum, influence, and its own proof."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuda_harness.state.errors import ConfigError
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.suite import Case, Inputs, SuiteProof
from cuda_harness.tools.execute import sandbox
from cuda_harness.tools.synthesize.influence import influence
from cuda_harness.tools.synthesize.proof import prove
from cuda_harness.tools.synthesize.reference import ReferenceFault, ReferenceRunner
from cuda_harness.tools.synthesize.reply import Truth
from cuda_harness.tools.synthesize.suite import Answer, Disagreement, Suite
from cuda_harness.tools.synthesize.truths import PERTURBED, LargeTruths, answer_of, most_lent, perturbed
from cuda_harness.tools.verify.cases import expected_of
from cuda_harness.tools.verify.compare import Agreement, Mismatch, compare_outputs
from cuda_harness.tools.verify.examine import comparer

pytestmark = pytest.mark.skipif(not sandbox.probe().contains, reason="seccomp filters do not work here")


def an_ir(**changes: Any) -> KernelIR:
    return KernelIR.model_validate({
        "schema": "cuda-harness/ir/1", "name": "row_scale", "dims": [{"name": "rows", "value": 300}, {"name": "cols", "value": 70}],
        "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["rows", "cols"]},
                    {"name": "w", "role": "in", "dtype": "float32", "shape": ["cols"]},
                    {"name": "y", "role": "out", "dtype": "float32", "shape": ["rows", "cols"]}],
        "scalars": [{"name": "a", "dtype": "float32", "value": 2.0, "low": 0.5, "high": 4.0}], **changes,
    })  # fmt: skip


GOOD = "import numpy as np\ndef reference(inputs, dims, scalars):\n    return {'y': scalars['a'] * inputs['x'].astype(np.float64) * inputs['w']}\n"
LOOPS = (
    "import numpy as np\ndef reference(inputs, dims, scalars):\n    y = np.zeros((dims['rows'], dims['cols']))\n"
    "    for i in range(dims['rows']):\n        for j in range(dims['cols']):\n"
    "            y[i, j] = float(scalars['a']) * float(inputs['x'][i, j]) * float(inputs['w'][j])\n    return {'y': y}\n"
)


@pytest.fixture(scope="module")
def runner() -> Iterator[ReferenceRunner]:
    made = ReferenceRunner()
    yield made
    made.close()


def a_suite(runner: ReferenceRunner, reference: str = GOOD, **more: Any) -> Suite:
    return Suite(more.pop("ir", None) or an_ir(), reference, runner=runner, seed=more.pop("seed", 9), **more)


def test_a_good_suite_proves_itself(runner: ReferenceRunner) -> None:
    proof = prove(a_suite(runner), comparer)

    assert isinstance(proof, SuiteProof)
    assert proof.passed
    names = {p.name for p in proof.plants}
    assert {
        "zeros",
        "ones",
        "copy of x",
        "transposed",
        "sign",
        "TF32 or half operands",
        "bfloat16 operands",
        "a ignored",
        "last tile stale",
    } <= names
    assert proof.honest == {"rounded truth": True, "float32 arithmetic": True}


def test_a_lenient_comparison_is_found_out(runner: ReferenceRunner, tmp_path: Path) -> None:
    suite = a_suite(runner, folder=tmp_path)

    proof = prove(suite, lambda *_: None)

    assert isinstance(proof, SuiteProof)
    assert not proof.passed
    assert not any(p.rejected for p in proof.plants)


def test_a_harsh_comparison_is_found_out(runner: ReferenceRunner) -> None:
    def harsh(
        ir: KernelIR,
        dims: Mapping[str, int],
        got: Mapping[str, Any],
        answer: Answer,
        inputs: Mapping[str, Any],
    ) -> str | None:
        same = bool((got["y"].astype(np.float64) == answer.arrays["y"]).all())
        return None if same else "not the very bits"

    proof = prove(a_suite(runner), harsh)

    assert isinstance(proof, SuiteProof)
    assert not proof.passed
    assert proof.honest["rounded truth"] is False


def test_a_weak_suite_takes_up_further_cases_and_keeps_them(runner: ReferenceRunner, tmp_path: Path) -> None:
    suite = a_suite(runner, folder=tmp_path)
    before = {c.id for c in suite.cases("values")}

    def blind(
        ir: KernelIR,
        dims: Mapping[str, int],
        got: Mapping[str, Any],
        answer: Answer,
        inputs: Mapping[str, Any],
    ) -> str | None:
        """See only cases of more rows than the first cases have."""
        if dims["rows"] * dims["cols"] <= largest:
            return None
        return comparer(ir, dims, got, answer, inputs)

    largest = max(
        c.dims["rows"] * c.dims["cols"] for c in [*suite.cases("values"), *suite.cases("shapes")[:8]]
    )
    proof = prove(suite, blind)

    assert isinstance(proof, SuiteProof)
    after = {c.id for c in suite.cases("values")}
    if max(c.dims["rows"] * c.dims["cols"] for c in suite.further_cases(1)) > largest:
        assert before < after
        assert {c.id for c in a_suite(runner, folder=tmp_path).cases("values")} == after


def test_references_that_agree(runner: ReferenceRunner) -> None:
    assert a_suite(runner, loops=LOOPS).quorum() is None


@pytest.mark.parametrize(("old", "new"), [("float(scalars['a']) * ", ""), ("['w'][j]", "['w'][0]"), ("range(dims['rows'])", "range(1, dims['rows'])"),
                                          ("float(inputs['x'][i, j])", "abs(float(inputs['x'][i, j]))")])  # fmt: skip
def test_references_that_differ_are_shown_by_their_smallest_case(
    runner: ReferenceRunner, old: str, new: str
) -> None:
    found = a_suite(runner, loops=LOOPS.replace(old, new)).quorum()

    assert isinstance(found, Disagreement)
    assert found.output == "y"
    assert found.first != found.second
    assert f"y[{found.index[0]}, {found.index[1]}]" in found.message
    assert found.case.dims["rows"] * found.case.dims["cols"] <= 400


def test_the_reference_that_fails_is_named(runner: ReferenceRunner) -> None:
    broken = "def reference(inputs, dims, scalars):\n    raise KeyError('w')\n"

    first, second = a_suite(runner, broken, loops=LOOPS).quorum(), a_suite(runner, loops=broken).quorum()

    assert isinstance(first, ReferenceFault)
    assert first.message.startswith("the vectorised reference")
    assert isinstance(second, ReferenceFault)
    assert second.message.startswith("the loop reference")


DOUBTFUL = {
    "random": ("np.random.default_rng().random((dims['rows'], dims['cols']))", "not deterministic"),
    "constant": ("np.ones((dims['rows'], dims['cols']))", "'x' does not matter"),
    "an input forgotten": ("scalars['a'] * inputs['x'].astype(float)", "'w' does not matter"),
    "a scalar forgotten": ("inputs['x'].astype(float) * inputs['w']", "scalar 'a' does not matter"),
}


@pytest.mark.parametrize(("body", "text"), DOUBTFUL.values(), ids=DOUBTFUL.keys())
def test_a_doubtful_reference_is_named(runner: ReferenceRunner, body: str, text: str) -> None:
    source = f"import numpy as np\ndef reference(inputs, dims, scalars):\n    return {{'y': {body}}}\n"
    suite = a_suite(runner, source)

    found = influence(suite, suite.cases("shapes")[-4:])

    assert found is not None
    assert text in found


def test_a_sound_reference_is_not_doubted(runner: ReferenceRunner) -> None:
    suite = a_suite(runner)

    assert influence(suite, suite.cases("shapes")[-4:]) is None


def test_an_unused_input_must_not_matter(runner: ReferenceRunner) -> None:
    tensors = [{"name": "x", "role": "in", "dtype": "float32", "shape": ["rows"]},
               {"name": "w", "role": "in", "dtype": "float32", "shape": ["rows"], "unused": True},
               {"name": "y", "role": "out", "dtype": "float32", "shape": ["rows"]}]  # fmt: skip
    ir = an_ir(tensors=tensors, scalars=[])
    head = "def reference(inputs, dims, scalars):\n    return {'y': inputs['x'] * 2.0"
    good, bad = a_suite(runner, head + "}\n", ir=ir), a_suite(runner, head + " + inputs['w']}\n", ir=ir)

    assert influence(good, good.cases("shapes")) is None
    assert "'w' is marked unused" in (influence(bad, bad.cases("shapes")) or "")


def test_cases_have_ids_of_their_own_and_secret_seeds(runner: ReferenceRunner) -> None:
    suite, other = a_suite(runner), a_suite(runner, seed=10)
    for stage in ("tiny", "shapes", "values", "target", "repeat"):
        cases = suite.cases(stage, tunables=[64, 128])  # type: ignore[arg-type]
        assert len({c.id for c in cases}) == len(cases)
        assert cases == a_suite(runner).cases(stage, tunables=[64, 128])  # type: ignore[arg-type]
        assert not {c.seed for c in cases} & {c.seed for c in other.cases(stage, tunables=[64, 128])}  # type: ignore[arg-type]


def test_truths_are_kept_on_disk_for_the_next_candidate(runner: ReferenceRunner, tmp_path: Path) -> None:
    cases = a_suite(runner).cases("shapes")
    first = a_suite(runner, folder=tmp_path).answers(cases)

    class NoRunner:
        def evaluate(self, *_: Any, **__: Any) -> None:
            pytest.fail("the truth was on disk")

    second = a_suite(NoRunner(), folder=tmp_path).answers(cases)  # type: ignore[arg-type]

    assert isinstance(first, dict)
    assert isinstance(second, dict)
    for key, answer in first.items():
        assert answer.arrays["y"].tobytes() == second[key].arrays["y"].tobytes()
        assert answer.sensitivity["y"].tobytes() == second[key].sensitivity["y"].tobytes()


def test_a_damaged_truth_is_made_anew(runner: ReferenceRunner, tmp_path: Path) -> None:
    cases = a_suite(runner).cases("tiny")
    a_suite(runner, folder=tmp_path).answers(cases)
    for path in (tmp_path / "truth").iterdir():
        path.write_bytes(path.read_bytes()[:-9])

    assert isinstance(a_suite(runner, folder=tmp_path).answers(cases), dict)


def test_another_reference_or_domain_has_other_truths(runner: ReferenceRunner, tmp_path: Path) -> None:
    case = a_suite(runner).cases("tiny")[1:2]
    first = a_suite(runner, folder=tmp_path).answers(case)
    doubled = a_suite(runner, GOOD.replace("scalars['a']", "2 * scalars['a']"), folder=tmp_path).answers(case)

    assert isinstance(first, dict)
    assert isinstance(doubled, dict)
    assert np.allclose(doubled[case[0].id].arrays["y"], 2 * first[case[0].id].arrays["y"])


def test_a_case_beyond_the_output_type_is_not_asked(runner: ReferenceRunner) -> None:
    huge = GOOD.replace("scalars['a'] *", "1e300 *")
    suite = a_suite(runner, huge)

    assert suite.answers(suite.cases("tiny")) == {}
    assert all("leaves the range of float32" in why for why in suite.skipped.values())


def test_a_reference_that_reads_the_bits_of_its_inputs(runner: ReferenceRunner) -> None:
    tensors = [
        {"name": "x", "role": "in", "dtype": "float32", "shape": ["rows"]},
        {"name": "y", "role": "out", "dtype": "uint32", "shape": ["rows"]},
    ]
    source = "import numpy as np\ndef reference(inputs, dims, scalars):\n    return {'y': inputs['x'].view(np.uint32)}\n"
    suite = a_suite(runner, source, ir=an_ir(tensors=tensors, scalars=[]))
    cases = suite.cases("shapes")

    found = suite.answers(cases)

    assert isinstance(found, dict)
    assert len(found) == len(cases)


def test_a_damaged_list_of_further_cases_is_said(runner: ReferenceRunner, tmp_path: Path) -> None:
    (tmp_path / "further.json").write_text("[{]")

    with pytest.raises(ConfigError, match="damaged"):
        a_suite(runner, folder=tmp_path)


def test_inputs_of_a_domain_stay_in_it_over_all_stages(runner: ReferenceRunner) -> None:
    specs = Inputs.from_json({"w": {"distribution": "uniform", "low": 3, "high": 4}}, where="inputs.json")
    suite = a_suite(runner, specs=specs)
    for stage in ("tiny", "shapes", "values", "repeat"):
        for case in suite.cases(stage):  # type: ignore[arg-type]
            w = suite.inputs(case)["w"]
            assert ((w >= 3) & (w <= 4)).all()


def test_large_truths_are_asked_for_once_in_a_run(
    runner: ReferenceRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cuda_harness.tools.synthesize.truths._CACHE_BYTES", 0)
    monkeypatch.setattr("cuda_harness.tools.synthesize.suite._LARGE_BYTES", 0)
    asked: list[int] = []
    evaluate = ReferenceRunner.evaluate

    def counting(self: ReferenceRunner, source: str, ir: KernelIR, questions: Any, **limits: Any) -> Any:
        asked.append(len(questions))
        return evaluate(self, source, ir, questions, **limits)

    monkeypatch.setattr(ReferenceRunner, "evaluate", counting)
    large = LargeTruths()
    first, second, alone = (a_suite(runner, folder=tmp_path, large=held) for held in (large, large, None))
    (case,) = first.cases("target")
    truths = [suite.answers([case]) for suite in (first, second)]
    assert len(asked) == 1
    assert all(isinstance(t, dict) for t in truths)
    assert np.array_equal(*(t[case.id].arrays["y"] for t in truths))  # type: ignore[index]
    alone.answers([case])
    assert len(asked) == 2, "a suite of another run does not see them"


def test_large_truths_keep_to_their_limit() -> None:
    def truth(bytes_: int) -> Answer:
        return Answer({"y": np.zeros(bytes_, np.uint8)}, {}, {})

    large = LargeTruths(100)
    for key, size in (("a", 60), ("b", 30), ("b", 40), ("too large", 101)):
        large.keep(key, truth(size))
    assert large.get("a") is not None
    assert large.get("too large") is None
    large.keep("c", truth(20))
    assert [large.get(key) is not None for key in "abc"] == [False, True, True]


def test_small_sizes_leave_a_large_target_to_its_own_stage(runner: ReferenceRunner) -> None:
    """An array of 100,000 costs little by its operations, yet runs for ever where every access is checked."""
    ir = an_ir(
        dims=[{"name": "n", "value": 100_000}],
        tensors=[{"name": n, "role": r, "dtype": "float32", "shape": ["n"]} for n, r in (("x", "in"), ("y", "out"))],
    )  # fmt: skip
    for seed in range(40):
        made = a_suite(runner, ir=ir, seed=seed)
        assert max(c.dims["n"] for c in made.cases("tiny", tunables=[128])) <= 700
        assert made.cases("target")[0].dims == {"n": 100_000}
    fixed = an_ir(
        dims=[{"name": "n", "value": 100_000, "fixed": True}],
        tensors=[{"name": n, "role": r, "dtype": "float32", "shape": ["n"]} for n, r in (("x", "in"), ("y", "out"))],
    )  # fmt: skip
    assert a_suite(runner, ir=fixed).cases("tiny")[0].dims == {"n": 100_000}


def test_each_dim_is_even_once_and_long_once(runner: ReferenceRunner) -> None:
    """A window of even length, strings of very different length: drawn sizes alone had neither at some seeds."""
    for seed in range(12):
        shapes = [c.dims for c in a_suite(runner, seed=seed).cases("shapes", tunables=[128])]
        for name in ("rows", "cols"):
            assert any(d[name] % 2 == 0 and d[name] > 0 for d in shapes)
            assert any(d[name] >= 1_000 and max(n for m, n in d.items() if m != name) < 10 for d in shapes)


GRAPH = {
    "start": {"distribution": "csr_offsets", "of": "to"},
    "to": {"distribution": "integers", "low": 0, "high": "n"},
}


@pytest.mark.parametrize("sizes", [(1, 1), (7, 7), (8, 30), (30, 8), (5, 1)])
def test_a_chain_leads_from_the_first_node_as_far_as_there_are_entries(
    runner: ReferenceRunner, sizes: tuple[int, int]
) -> None:
    n, m = sizes
    ir = KernelIR.model_validate({
        "name": "levels", "dims": [{"name": "n", "value": n}, {"name": "m", "value": m}],
        "tensors": [{"name": "start", "role": "in", "dtype": "int32", "shape": ["n + 1"]},
                    {"name": "to", "role": "in", "dtype": "int32", "shape": ["m"]},
                    {"name": "level", "role": "out", "dtype": "int32", "shape": ["n"]}],
    })  # fmt: skip
    suite = Suite(ir, "", runner=runner, seed=1, specs=Inputs.from_json(GRAPH, where="inputs.json"))
    assert any(c.regime == "chain" for c in suite.cases("values"))
    case = Case(id="c", stage="values", dims=dict(ir.target_dims), scalars={}, regime="chain", seed=4)
    drawn = suite.inputs(case)
    start, to = drawn["start"], drawn["to"]
    assert (start[0], start[-1]) == (0, m)
    assert (np.diff(start) >= 0).all()
    assert ((to >= 0) & (to < n)).all()
    seen, node = {0}, 0
    while True:
        fresh = [t for t in to[start[node] : start[node + 1]].tolist() if t not in seen]
        if not fresh:
            break
        assert len(fresh) == 1
        node = fresh[0]
        seen.add(node)
    assert len(seen) >= min(n, m)


PLAIN = """
import numpy as np
from scipy.special import erf
def reference(inputs, dims, scalars):
    t = inputs['x'].astype(np.float64)
    return {'y': 0.5 * t * (1 + erf(t / np.sqrt(2.0)))}
"""
ANNOTATED = '''"""GELU."""
from __future__ import annotations
import numpy as np
from scipy.special import erf
ROOT = np.sqrt(2.0)
def reference(inputs: dict[str, np.ndarray], dims: dict[str, int], scalars: dict[str, int | float | bool]) -> dict[str, np.ndarray]:
    t: np.ndarray = inputs["x"].astype(np.float64)
    return {"y": 0.5 * t * (1 + erf(t / ROOT))}
'''
EVALUATED = ANNOTATED.replace("from __future__ import annotations\n", "")


@pytest.mark.parametrize("reference", [PLAIN, ANNOTATED, EVALUATED])
@pytest.mark.parametrize(
    ("error", "right"), [(5e-8, True), (-4e-8, True), (1e-6, False), (-3e-7, False), (1e-3, False)]
)
def test_an_element_whose_terms_cancel_is_lent_what_float32_arithmetic_loses(
    runner: ReferenceRunner, reference: str, error: float, right: bool
) -> None:
    """Near -1 the error function in float32 is exact to 6e-8, which is a thousandth of what is left of 1 + erf."""
    ir = KernelIR.model_validate({
        "name": "gelu", "dims": [{"name": "n", "value": 1}],
        "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
                    {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
    })  # fmt: skip
    suite = Suite(ir, reference, runner=runner, seed=1)
    case = Case(id="c", stage="values", dims={"n": 1}, scalars={}, regime="normal", seed=4)
    x = np.array([-3.5], dtype=np.float32)
    suite.inputs = lambda _: {"x": x}  # type: ignore[method-assign]
    answers = suite.answers([case])
    assert isinstance(answers, dict)
    answer = answers["c"]
    got = {"y": (answer.arrays["y"] + 0.5 * 3.5 * error).astype(np.float32)}
    lending = suite.lending(case, answer)
    assert lending is not None
    found = [compare_outputs(ir, case.dims, got, expected_of(a), inputs={"x": x}) for a in (answer, lending)]
    assert isinstance(found[0], Mismatch)
    assert isinstance(found[1], Agreement) is right


POLES = """
import numpy as np
def reference(inputs, dims, scalars):
    with np.errstate(all="ignore"):
        return {'y': 1 / (inputs['x'].astype(np.float64) - 0.5)}
"""


def test_an_infinite_truth_lends_the_others_nothing(runner: ReferenceRunner) -> None:
    ir = KernelIR.model_validate({
        "name": "poles", "dims": [{"name": "n", "value": 64}],
        "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
                    {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
        "numerics": {"precision": "strict", "nonfinite": "propagate", "deterministic": False, "fast_math": False},
    })  # fmt: skip
    suite = Suite(ir, POLES, runner=runner, seed=1)
    case = Case(id="c", stage="values", dims={"n": 64}, scalars={}, regime="ties", seed=4)
    answers = suite.answers([case])
    assert isinstance(answers, dict)
    answer = answers["c"]
    assert np.isinf(answer.arrays["y"]).any()
    inputs = suite.inputs(case)
    got = {"y": (answer.arrays["y"] * 1.001).astype(np.float32)}
    lending = suite.lending(case, answer)
    assert lending is not None
    for judge in (lending, most_lent(ir, answer)):
        assert np.isfinite(judge.slack["y"]).all()
        assert not judge.slack["y"][np.isinf(answer.arrays["y"])].any()
    assert isinstance(compare_outputs(ir, case.dims, got, expected_of(lending), inputs=inputs), Mismatch)


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_a_sum_that_one_product_dominates_is_sensitive_whatever_the_signs(count: int) -> None:
    """Inputs that move by as much against each other leave their product where it is."""
    names = "abcde"[:count]
    ir = KernelIR.model_validate({
        "name": "products", "dims": [{"name": "n", "value": 8}],
        "tensors": [
            *({"name": n, "role": "in", "dtype": "float64", "shape": ["n"]} for n in names),
            {"name": "y", "role": "out", "dtype": "float64", "shape": []},
        ],
    })  # fmt: skip
    rng = np.random.default_rng(3)
    inputs = {n: rng.standard_normal(8) for n in names}
    for n in names:
        inputs[n][5] = 100.0

    def truth(given: Mapping[str, Any]) -> Truth:
        return Truth({"y": np.asarray(np.prod([given[n] for n in names], axis=0).sum())}, {})

    for seed in range(60):
        case = Case(id=f"c{seed}", stage="values", dims={"n": 8}, scalars={}, regime="outlier", seed=seed)
        moved = [truth(perturbed(ir, inputs, case, k)) for k in (1, PERTURBED)]
        sense = float(answer_of(ir, truth(inputs), moved).sensitivity["y"])
        assert sense > 0.05 * 2.0**-24 * 100.0**count
