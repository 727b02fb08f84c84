"""Properties on a kernel's outputs: a mismatch is named by them, one more job is spent at most, the honest pass."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.unit.tools.verify.test_ladder import (
    COMPILED,
    IR,
    PLAN,
    SOURCE,
    InProcessReference,
    ScriptedCompiler,
    ScriptedExecutor,
)

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.results import Verdict
from cuda_harness.state.suite import Property
from cuda_harness.tools.execute.protocol import Array, Job
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.verify.ladder import judge

CLAIMS = [
    {"kind": "linear_in", "output": "y", "tensor": "x"},
    {"kind": "homogeneous_in", "output": "y", "tensor": "x"},
    {"kind": "monotone_in", "output": "y", "tensor": "x"},
    {"kind": "shift_invariant_in", "output": "y", "tensor": "x"},
    {"kind": "idempotent", "output": "y", "tensor": "x"},
]


def judged(
    answer: Callable[[Array, float, int, Job], Any], claims: Sequence[dict[str, Any]], *,
    truth: Callable[[Array, float], Array] = lambda x, a: a * x.astype(np.float64),
) -> tuple[Verdict, ScriptedExecutor]:  # fmt: skip
    ir = KernelIR.model_validate(IR)
    properties = [Property.model_validate(c) for c in claims]
    suite = Suite(ir, "r", runner=InProcessReference(truth), seed=11, properties=properties)  # type: ignore[arg-type]
    kernel = Kernel(source=SOURCE, plan=LaunchPlan.model_validate(PLAN))
    executor = ScriptedExecutor(answer)
    found = judge(
        kernel, ir, suite, executor=executor, compiler=ScriptedCompiler(COMPILED), target="sm_90a", seed=1, max_seconds=60.0,  # type: ignore[arg-type]
    )  # fmt: skip
    return found, executor


def scaled(x: Array, a: float, _call: int, _job: Job) -> Array:
    return (a * x).astype(np.float32)


def test_an_honest_kernel_has_the_properties_at_the_price_of_one_job() -> None:
    plain, without = judged(scaled, [])
    found, executor = judged(scaled, CLAIMS[:3])

    assert found.accepted, found.failure
    values = found.stage("values")
    assert values is not None
    assert "3 properties hold" in values.detail
    assert len(executor.jobs) == len(without.jobs) + 1
    assert plain.accepted


def test_more_properties_than_one_job_bears_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuda_harness.tools.verify.metamorphic.CALLS", 3)

    found, _ = judged(scaled, CLAIMS[:3])

    values = found.stage("values")
    assert found.accepted
    assert values is not None
    assert "1 properties hold, 2 more would cost further jobs" in values.detail


def test_a_violation_is_a_mismatch_that_names_the_property() -> None:
    found, _ = judged(
        scaled, [CLAIMS[3]]
    )  # the truth has it no more than the kernel: nobody has asked the reference

    assert found.failure is not None
    assert (found.outcome, found.failure.stage, found.failure.class_) == ("rejected", "values", "mismatch")
    assert found.failure.evidence["property"] == "y does not change when x is shifted by a constant"


@pytest.mark.parametrize(
    ("claim", "truth", "wrong", "words"),
    [
        ({"kind": "nonnegative", "output": "y"}, np.abs, np.negative, "y is not negative, but y[0] is"),
        ({"kind": "in_range", "output": "y", "high": 1.0}, np.tanh, lambda x: 3 + np.tanh(x), "lies within None and 1.0, but y[0]"),
        ({"kind": "permutation_of", "output": "y", "tensor": "x"}, np.sort, lambda x: np.sort(x) + 1, "permutation of x"),
        ({"kind": "rows_sum_to", "output": "y"}, lambda x: np.full(x.shape, 1 / x.size), lambda x: np.full(x.shape, 0.5 / x.size), "sums of y"),
    ],
)  # fmt: skip
def test_a_mismatch_is_named_by_the_property_it_violates(
    claim: Any, truth: Any, wrong: Any, words: str
) -> None:
    found, _ = judged(
        lambda x, _a, _c, _j: wrong(x).astype(np.float32),
        [claim],
        truth=lambda x, _a: truth(x.astype(np.float64)),
    )

    assert found.failure is not None
    assert found.failure.class_ == "mismatch"
    assert f"it violates a property: {found.failure.evidence['property']}" in found.failure.message
    assert words in found.failure.message
