"""Each planted wrong output: a suite that tells it from the truth, and one that cannot and therefore may not judge."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import Failure
from cuda_harness.state.suite import Inputs, SuiteProof
from cuda_harness.tools.execute import sandbox
from cuda_harness.tools.synthesize.misreadings import without_last_taps
from cuda_harness.tools.synthesize.proof import BEYOND_FLOAT, prove
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.synthesize.trial import WITHIN_ROUNDING
from cuda_harness.tools.synthesize.truths import Answer
from cuda_harness.tools.verify.examine import comparer, examine_suite

pytestmark = pytest.mark.skipif(not sandbox.probe().contains, reason="seccomp filters do not work here")


@pytest.fixture(scope="module")
def runner() -> Iterator[ReferenceRunner]:
    made = ReferenceRunner()
    yield made
    made.close()


@dataclass(frozen=True)
class Problem:
    """What is computed, and the rule and the data that make its suite blind."""

    shape: tuple[str, ...]
    out: tuple[str, ...]
    body: str
    weak: dict[str, Any]
    """A compare rule beside which `data` hides the mistake."""
    data: dict[str, Any]
    dtype: str = "float32"
    more: tuple[dict[str, Any], ...] = ()
    scalars: tuple[dict[str, Any], ...] = ()
    rule: dict[str, Any] | None = None


NARROW = {"distribution": "normal", "mean": 1.0, "std": 1e-3}
LENIENT = {"mode": "close", "rtol": 0.02}
SOFTMAX = "e = np.exp(x - x.max(-1, keepdims=True)); y = e / e.sum(-1, keepdims=True)"
BLUR = "p = np.pad(x, 1); y = (p[:-2] + p[1:-1] + p[2:]) / 3"
SCALE = {"name": "a", "dtype": "float32", "value": 2.0}
PROBLEMS: dict[str, Problem] = {
    "wrong axis of x": Problem(("n", "n"), ("n", "n"), SOFTMAX, LENIENT, NARROW),
    "wrong axis (rows, cols)": Problem(
        ("rows", "cols"), ("rows", "cols"), "y = x - x.mean(-1, keepdims=True) + 9", LENIENT, NARROW
    ),
    "off-by-one window (x)": Problem(("n",), ("n",), BLUR, LENIENT, NARROW),
    "one tap missing (x)": Problem(("n",), ("1",), "y = x.mean().reshape(1)", LENIENT, NARROW),
    "one tap missing of every window of x": Problem(("n",), ("n",), BLUR, LENIENT, NARROW),
    "a ignored": Problem(
        ("n",), ("n",), "y = a * x", LENIENT, {}, scalars=({**SCALE, "value": 1.005, "low": 1.001, "high": 1.01},)
    ),
    "a hard-coded": Problem(
        ("n",), ("n",), "y = a * x", LENIENT, {}, scalars=({**SCALE, "low": 1.99, "high": 2.01},)
    ),
    "a taken for zero": Problem(
        ("n",), ("n",), "y = x + a", {"mode": "close", "atol": 0.1}, {}, scalars=({**SCALE, "value": 0.01, "low": 0.005, "high": 0.02},)
    ),
    "identity scalars": Problem(
        ("n",), ("n",), "y = a * x * scalars['b']", LENIENT, {},
        scalars=({**SCALE, "value": 1.005, "low": 1.001, "high": 1.009}, {**SCALE, "name": "b", "value": 1.005, "low": 1.001, "high": 1.009}),
    ),
    "permuted ties": Problem(
        ("rows", "cols"), ("rows",), "y = x.argmax(-1)", {"mode": "close", "atol": 1e6}, {}, dtype="int32", rule={"mode": "index", "of": "x"}
    ),
    "duplicated rows": Problem(("rows", "cols"), ("rows", "cols"), "y = 2 * x", LENIENT, NARROW),
    "rows in pairs": Problem(("rows", "cols"), ("rows", "cols"), "y = 2 * x", LENIENT, NARROW),
    "last tile stale": Problem(("n",), ("n",), "y = 2 * x", {"mode": "close", "atol": 3.0}, NARROW),
    "last corner tile stale": Problem(
        ("rows", "cols"), ("rows", "cols"), "y = 2 * x", {"mode": "close", "atol": 3.0}, NARROW
    ),
    "TF32 or half operands": Problem(("n",), ("n",), "y = 2 * x", {"mode": "close", "reduction_length": 10**9}, {}),
    "bfloat16 operands": Problem(("n",), ("n",), "y = 2 * x", {"mode": "close", "reduction_length": 10**10}, {}),
    "float32 in place of float64": Problem(
        ("n",), ("n",), "y = x.astype(np.float64) / 3", {"mode": "close", "reduction_length": 10**16}, {}, dtype="float64"
    ),
}  # fmt: skip


def a_suite(runner: ReferenceRunner, problem: Problem, *, weak: bool, seed: int = 3, **more: Any) -> Suite:
    dims = dict.fromkeys(n for n in (*problem.shape, *problem.out) if n != "1")
    given = "float64" if problem.dtype == "float64" else "float32"
    rule = problem.weak if weak else problem.rule
    ir = KernelIR.model_validate({
        "schema": KernelIR.KIND, "name": "k", "dims": [{"name": n, "value": 90, "min": 3, "max": 90} for n in dims],
        "tensors": [{"name": "x", "role": "in", "dtype": given, "shape": list(problem.shape)}, *problem.more,
                    {"name": "y", "role": "out", "dtype": problem.dtype, "shape": list(problem.out), **({"compare": rule} if rule else {})}],
        "scalars": [s if weak else {**s, "value": 2.0, "low": 1.5, "high": 3.0} for s in problem.scalars], **more,
    })  # fmt: skip
    head = "import numpy as np\ndef reference(inputs, dims, scalars):\n    x, a = inputs['x'].astype(np.float64), scalars.get('a')\n"
    specs = Inputs.from_json({"x": problem.data} if weak and problem.data else {}, where="inputs.json")
    return Suite(
        ir, f"{head}    {problem.body}\n    return {{'y': y}}\n", runner=runner, seed=seed, specs=specs
    )


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_plant_is_rejected_by_a_suite_that_can_see_it(runner: ReferenceRunner, name: str) -> None:
    proof = prove(a_suite(runner, PROBLEMS[name], weak=False), comparer)

    assert isinstance(proof, SuiteProof)
    assert proof.passed, (proof.plants, proof.honest)
    assert {p.name: p.rejected for p in proof.plants}[name] is True, proof.skipped


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_plant_that_no_case_rejects_makes_a_weak_suite(runner: ReferenceRunner, name: str) -> None:
    found = examine_suite(a_suite(runner, PROBLEMS[name], weak=True), ())

    assert isinstance(found, Failure), found
    assert found.class_ == "weak_suite"
    assert name in found.evidence["missed"]
    assert name in found.message
    assert not found.is_candidates


def test_a_suite_that_was_blind_takes_up_cases_that_tell(runner: ReferenceRunner) -> None:
    problem = PROBLEMS["duplicated rows"]
    suite = a_suite(runner, problem, weak=False)
    first = {(c.dims["rows"], c.dims["cols"]) for s in ("values", "shapes") for c in suite.cases(s)}  # type: ignore[arg-type]

    def blind(ir: KernelIR, dims: Mapping[str, int], got: Any, answer: Answer, inputs: Any) -> str | None:
        """See nothing at the sizes of the first cases."""
        return None if (dims["rows"], dims["cols"]) in first else comparer(ir, dims, got, answer, inputs)

    before = len(suite.cases("values"))
    proof = prove(suite, blind)

    assert isinstance(proof, SuiteProof)
    assert proof.passed, [p.name for p in proof.plants if not p.rejected]
    assert {
        "wrong axis (rows, cols)",
        "off-by-one window (x, axis 1)",
        "last tile stale",
        "rows in pairs",
    } <= {p.name for p in proof.plants} | set(proof.skipped)
    assert all(p.detail.endswith(("-10", "-20")) for p in proof.plants), "each is told by a further case"
    assert len(suite.cases("values")) > before, "which stays in the suite"


def _unfair_at(regime: str) -> Any:
    """Return a comparison that rejects float32 arithmetic, though not the rounded truth, on data of one regime."""

    def compare(ir: KernelIR, dims: Mapping[str, int], got: Any, answer: Answer, inputs: Any) -> str | None:
        found = comparer(ir, dims, got, answer, inputs)
        shifted = regime == "any" or (regime == "offset" and float(np.mean(inputs["x"])) > 50)
        exact = np.array_equal(got["y"], answer.arrays["y"].astype(np.float32))
        return found or ("too coarse" if shifted and not exact else None)

    return compare


OFFSETS = Problem(("rows", "n"), ("rows",), "y = x.sum(1)", {}, {})


def test_a_case_whose_data_the_arithmetic_cannot_bear_is_left_out(
    runner: ReferenceRunner, tmp_path: Path
) -> None:
    suite = a_suite(runner, OFFSETS, weak=False)
    suite = Suite(suite.ir, suite.reference, runner=runner, seed=3, folder=tmp_path)
    proof = prove(suite, _unfair_at("offset"))

    assert isinstance(proof, SuiteProof)
    assert proof.passed, (proof.honest, proof.plants)
    left = [name for name, why in proof.skipped.items() if why == BEYOND_FLOAT]
    assert len(left) >= 1
    assert all("offset" in name for name in left)
    later = Suite(suite.ir, suite.reference, runner=runner, seed=3, folder=tmp_path)
    again_proved = prove(later, _unfair_at("offset"))
    assert isinstance(again_proved, SuiteProof)
    assert {n for n, why in again_proved.skipped.items() if why == BEYOND_FLOAT} == set(left)
    for again in (suite, later):
        answers = again.answers(again.cases("values"))
        assert isinstance(answers, dict)
        assert len(again.cases("values")) - len(answers) == len(left)


def test_a_suite_that_rejects_honest_arithmetic_of_any_data_proves_nothing(runner: ReferenceRunner) -> None:
    suite = a_suite(runner, OFFSETS, weak=False)
    proof = prove(suite, _unfair_at("any"))

    assert isinstance(proof, SuiteProof)
    assert not proof.passed
    assert BEYOND_FLOAT not in proof.skipped.values()


def test_a_plant_within_rounding_is_no_plant(runner: ReferenceRunner) -> None:
    problem = Problem(("n",), ("n",), "y = x * (1 + 2e-7)", {}, {})
    proof = prove(a_suite(runner, problem, weak=False), comparer)

    assert isinstance(proof, SuiteProof)
    assert proof.passed
    assert proof.skipped["copy of x"] == WITHIN_ROUNDING


def test_inputs_that_a_reference_refuses_are_no_plant(runner: ReferenceRunner) -> None:
    body = "assert not (x[-1] == x[-2] and np.unique(x).size == x.size - 1); y = 2 * x"
    proof = prove(a_suite(runner, Problem(("n",), ("n",), body, {}, {}), weak=False), comparer)

    assert isinstance(proof, SuiteProof)
    assert "refuses" in proof.skipped["off-by-one window (x)"]
    assert proof.passed


def test_a_reference_that_dies_of_inputs_read_wrongly_is_asked_only_what_is_in_its_domain(
    runner: ReferenceRunner,
) -> None:
    body = "import os; x.size > 9 and x[-1] == x[-2] and np.unique(x).size == x.size - 1 and os._exit(1); y = a * x"
    problem = Problem(("n",), ("n",), body, {}, {}, scalars=(SCALE,))
    proof = prove(a_suite(runner, problem, weak=False), comparer)

    assert isinstance(proof, SuiteProof)
    assert proof.passed
    assert {"a ignored", "a hard-coded", "TF32 or half operands"} <= {p.name for p in proof.plants}
    assert "refuses inputs that are read so: the reference ended" in proof.skipped["off-by-one window (x)"]


def test_large_integers_differ_in_their_last_bit(runner: ReferenceRunner) -> None:
    body = "y = (inputs['x'] > 0) + (np.int64(1) << 60)"
    proof = prove(a_suite(runner, Problem(("n",), ("n",), body, {}, {}, dtype="int64"), weak=False), comparer)

    assert isinstance(proof, SuiteProof)
    assert proof.passed
    assert "reversed" in {p.name for p in proof.plants}, "which float64 could not tell from the truth"


def test_equal_values_may_be_chosen_freely_where_the_ir_says_so(runner: ReferenceRunner) -> None:
    problem = PROBLEMS["permuted ties"]
    rule = {"mode": "index", "of": "x", "ties": "any"}
    free = Problem(problem.shape, problem.out, problem.body, {}, {}, dtype="int32", rule=rule)
    strict = Problem(
        problem.shape, problem.out, problem.body, {}, {}, dtype="int32", rule={**rule, "ties": "lowest"}
    )

    found, refused = (prove(a_suite(runner, p, weak=False), comparer) for p in (free, strict))

    assert isinstance(found, SuiteProof)
    assert isinstance(refused, SuiteProof)
    assert found.honest["other ties"] is True
    assert "permuted ties" not in {p.name for p in found.plants}
    assert {p.name: p.rejected for p in refused.plants}["permuted ties"] is True


@pytest.mark.parametrize(
    ("body", "text"),
    [("y = 1e300 * x", "leaves the range of float32"), ("y = x * np.nan", "'y' is NaN here")],
)
def test_a_reference_without_a_usable_value_is_named(runner: ReferenceRunner, body: str, text: str) -> None:
    found = examine_suite(a_suite(runner, Problem(("n",), ("n",), body, {}, {}), weak=False), ())

    assert isinstance(found, Failure)
    assert found.class_ == "oracle"
    assert text in found.message
    assert found.evidence["culprit"] == "reference.py or ir.json"


@pytest.mark.parametrize("policy", ["strict", "allow_tf32", "allow_half"])
@pytest.mark.parametrize(
    "body", ["y = x @ x.T", "y = np.einsum('ij,kj->ik', np.tanh(x), x)", "y = 1 / (1 + np.exp(-x @ x.T))"]
)
def test_operands_of_fewer_bits_are_honest_where_the_policy_allows_them(
    runner: ReferenceRunner, policy: str, body: str
) -> None:
    rule = {"mode": "close", "reduction_length": "n"}
    problem = Problem(("n", "n"), ("n", "n"), body, {}, {}, rule=rule)
    proof = prove(a_suite(runner, problem, weak=False, numerics={"precision": policy}), comparer)

    assert isinstance(proof, SuiteProof)
    assert proof.passed, (proof.honest, [p for p in proof.plants if not p.rejected])
    planted = {p.name for p in proof.plants}
    name = "TF32 or half operands"
    assert (name in planted) is (policy == "strict"), "strict forbids it"
    assert ("bfloat16 operands" in planted) is (policy == "strict")
    assert proof.honest.get(name) is (None if policy == "strict" else True)


@pytest.mark.parametrize("rule", [{"mode": "exact"}, {"mode": "close", "rtol": 1e-6}])
def test_an_output_with_a_rule_of_its_own_is_bound_by_it_whatever_the_policy(
    runner: ReferenceRunner, rule: dict[str, Any]
) -> None:
    problem = Problem(("n",), ("n",), "y = np.sort(x)", {}, {}, rule=rule)
    proof = prove(a_suite(runner, problem, weak=False, numerics={"precision": "allow_tf32"}), comparer)

    assert isinstance(proof, SuiteProof)
    assert proof.passed, proof.honest
    assert "TF32 or half operands" not in proof.honest
    assert "states how each output is compared" in proof.skipped["TF32 or half operands"]


def test_bfloat16_operands_are_honest_where_the_problem_holds_bfloat16(runner: ReferenceRunner) -> None:
    w = {"name": "w", "role": "in", "dtype": "bfloat16", "shape": ["n", "n"]}
    problem = Problem(
        ("n", "n"), ("n", "n"), "y = np.tanh(x @ inputs['w']) @ x", {}, {}, more=(w,), dtype="bfloat16"
    )
    proof = prove(a_suite(runner, problem, weak=False, numerics={"precision": "allow_half"}), comparer)

    assert isinstance(proof, SuiteProof)
    assert proof.honest["bfloat16 operands"] is True


def test_a_window_misses_its_last_tap() -> None:
    x = np.array([3.0, 1.0, 4.0, 1.5, 9.0])
    probed = [np.convolve(np.where(np.arange(5) == k, 0, x), [1, 1], "valid") for k in range(5)]

    assert (without_last_taps(np.convolve(x, [1, 1], "valid"), probed) == x[:-1]).all()
    assert without_last_taps(2 * x, [np.where(np.arange(5) == k, 0, 2 * x) for k in range(5)]) is None


def test_an_output_that_is_never_defined_is_not_judged_by_the_others(runner: ReferenceRunner) -> None:
    count = {"name": "count", "role": "out", "dtype": "int32", "shape": [1]}
    body = "y = {}; count = np.sum(x > 0).reshape(1)\n    return {{'y': y, 'y.defined': np.{}(x.shape, bool), 'count': count}}"
    seen, hidden = (
        examine_suite(
            a_suite(
                runner, Problem(("n",), ("n",), body.format("2 * x", mask), {}, {}, more=(count,)), weak=False
            ),
            (),
        )
        for mask in ("ones", "zeros")
    )

    assert isinstance(seen, SuiteProof)
    assert isinstance(hidden, Failure)
    assert hidden.class_ in {"weak_suite", "oracle"}
    assert "does not see what is in y" in hidden.message
