"""Where no clock is, and where nothing is to choose, the tuner leaves the kernel as it is."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes.services import FakeRuntime, FakeServices

from cuda_harness.agents.tuner import tune_kernel
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.errors import BudgetExhausted, StateError
from cuda_harness.state.harness import BranchTunerView, TunerView
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.results import Verdict
from cuda_harness.state.rounds import BranchPlan

IR = KernelIR.model_validate({
    "name": "k", "dims": [{"name": "n", "value": 64}],
    "tensors": [{"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
})  # fmt: skip
GOOD = Verdict(outcome="accepted", executor="cpu")
SOURCE = 'extern "C" __global__ void k(float* y, int n) { if (threadIdx.x < n) y[threadIdx.x] = 1.f; }'


def services(root: Path, tunables: dict[str, list[int]], **executor: Any) -> FakeServices:
    made = FakeServices(root, executor=SimpleNamespace(name="cpu", **executor))
    plan = LaunchPlan.model_validate({
        "tunables": tunables, "steps": [{"launch": "k", "grid": [1], "block": [64], "args": ["y", "n"]}],
    })  # fmt: skip
    made.folder.save_kernel(1, Kernel(source=SOURCE, plan=plan))
    return made


def view(**changes: Any) -> TunerView:
    first = Attempt(id=1, sha256="a", verdict=GOOD)
    return TunerView(run_dir="r", ir=IR, attempts={1: first.model_copy(update=changes)})


def test_an_executor_without_a_clock_changes_nothing(tmp_path: Path) -> None:
    runtime = FakeRuntime(services(tmp_path, {"BLOCK": [64, 128]}))
    assert tune_kernel(view(), runtime) == {"attempts": {}}  # type: ignore[arg-type]
    assert not (tmp_path / "attempts" / "001" / "tuning.json").exists()


def test_a_plan_without_a_choice_is_not_measured(tmp_path: Path) -> None:
    def ask(*_: Any, **__: Any) -> None:
        pytest.fail("the device was asked although there is nothing to choose")

    runtime = FakeRuntime(services(tmp_path, {"BLOCK": [64]}, ask=ask, facts=ask))
    assert tune_kernel(view(), runtime) == {"attempts": {}}  # type: ignore[arg-type]


def test_what_was_tuned_is_not_tuned_again_and_a_branch_keeps_to_its_ids(tmp_path: Path) -> None:
    runtime = FakeRuntime(services(tmp_path, {"BLOCK": [64, 128]}))
    assert tune_kernel(view(strategy="tune"), runtime) == {"attempts": {}}  # type: ignore[arg-type]
    plan = BranchPlan(name="r1b1", parent=0, strategy="vector_loads", first=1, last=1)
    full = BranchTunerView(plan=plan, **view().model_dump())
    assert tune_kernel(full, runtime) == {"attempts": {}}  # type: ignore[arg-type]


def test_only_a_verified_kernel_is_tuned(tmp_path: Path) -> None:
    runtime = FakeRuntime(services(tmp_path, {}))
    with pytest.raises(StateError, match="without a verified kernel"):
        tune_kernel(view(verdict=None), runtime)  # type: ignore[arg-type]


def test_a_spent_time_is_said_before_the_device_is_used(tmp_path: Path) -> None:
    made = services(tmp_path, {"BLOCK": [64, 128]})

    def spent() -> None:
        raise BudgetExhausted(limit="max_seconds", detail="10 of 10 seconds have passed")

    made.ledger.require_time = spent  # type: ignore[method-assign]
    with pytest.raises(BudgetExhausted):
        tune_kernel(view(), FakeRuntime(made))  # type: ignore[arg-type]
