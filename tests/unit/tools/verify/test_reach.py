"""Check mode beyond the tiny sizes: where it looks, when it stops, what it says."""

import threading
from typing import Any

import pytest
from tests.unit.tools.verify.test_ladder import IR, PLAN, ScriptedExecutor, scaled, verdict

from cuda_harness.state.ir import Dim, KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.results import Verdict
from cuda_harness.tools.execute.protocol import MIXED, ORDERS, Coverage, Job, JobFault, JobOk, JobResult
from cuda_harness.tools.synthesize.shapes import around
from cuda_harness.tools.verify.landmarks import beyond, landmarks

TWO_KERNELS = {
    "tunables": {"BLOCK": [128, 64], "EPT": [4]},
    "steps": [
        {"launch": "k", "grid": ["cdiv(n, BLOCK * EPT)"], "block": ["BLOCK"], "args": ["x", "y", "a", "n"], "when": "n <= 3000"}
    ],
}  # fmt: skip


def test_landmarks_are_the_closed_parts_of_the_plan_and_the_products_of_the_source() -> None:
    source = """
    constexpr int TILE = BLOCK * EPT / 2;
    #define ROWS 24
    for (int i = 0; i < n; i += 32 * EPT) x += ROWS * 11;
    constexpr float HALF = 0.5f;
    """
    found = landmarks(Kernel(source=source, plan=LaunchPlan.model_validate(TWO_KERNELS)))
    assert {128, 4, 512, 3000, 256, 24, 264} <= set(found)
    assert not {0, 1} & set(found)


def test_sizes_around_a_landmark_keep_the_rules_of_their_dim() -> None:
    assert around(Dim(name="n", value=8), [256], most=1 << 16) == [256, 257, 512, 515, 769, 1024]
    assert all(n % 24 == 0 for n in around(Dim(name="n", value=24, multiple_of=24), [256], most=1 << 16))
    assert around(Dim(name="n", value=8, power_of_two=True), [300], most=1 << 16) == [512, 1024, 2048]
    assert around(Dim(name="n", value=8, max=9), [300], most=1 << 16) == [8]


class Observed(ScriptedExecutor):
    """Tells of a kernel whose second block runs from 1000 elements on and whose third never does."""

    def run(self, job: Job) -> JobResult:
        done = super().run(job)
        if job.mode != "check" or not isinstance(done, JobOk):
            return done
        size = job.program.buffers[0].count
        ran = {(1, 1)} | ({(4, 2)} if size >= 1000 else set())
        places = frozenset({(1, 1), (4, 2), (9, 3)})
        return JobOk(done.calls, done.seconds, coverage=Coverage(places, frozenset(ran)))


def sizes_in_check_mode(executor: ScriptedExecutor) -> set[int]:
    return {job.program.buffers[0].count for job in executor.jobs if job.mode == "check"}


def test_sizes_are_added_until_everything_ran_and_the_rest_is_named() -> None:
    executor = Observed()
    found = verdict(executor)
    assert found.accepted, found.failure
    assert max(sizes_in_check_mode(executor)) >= 1000
    tiny = found.stage("tiny")
    assert tiny is not None
    assert "parts of line(s) 9 never ran" in tiny.detail
    assert tiny.covered["lines_not_reached"] == [9]


def only_beyond(fault: JobFault) -> Any:
    """Return an answer that is right below 1000 elements in check mode, and in plain mode everywhere."""
    return lambda x, a, call, job: (
        fault if job.mode == "check" and x.size >= 1000 else scaled(x, a, call, job)
    )


def test_a_fault_at_a_size_that_was_added_rejects() -> None:
    found = verdict(Observed(only_beyond(JobFault("out_of_bounds", "line 4: one float past the end of `x`"))))
    assert found.failure is not None
    assert (found.failure.stage, found.failure.class_) == ("tiny", "out_of_bounds")
    assert found.failure.evidence["dims"]["n"] >= 1000


def test_a_mismatch_that_threads_in_a_row_do_not_make_says_so() -> None:
    def answer(x: Any, a: float, call: int, job: Job) -> Any:
        lost = job.mode == "check" and x.size >= 256 and job.poison % ORDERS == MIXED
        return scaled(x, a + (1.0 if lost else 0.0), call, job)

    failure = verdict(Observed(answer)).failure
    assert failure is not None
    assert (failure.stage, failure.class_) == ("tiny", "mismatch")
    assert failure.evidence["depends_on_order"] is True
    assert "one after the other" in failure.message


def test_sizes_of_many_blocks_are_run_in_mixed_order() -> None:
    for seed in range(4):
        executor = Observed()
        assert verdict(executor, seed=seed).accepted
        large = [j for j in executor.jobs if j.mode == "check" and j.program.buffers[0].count > 200]
        assert any(j.poison % ORDERS == MIXED for j in large)


def test_runs_that_nobody_waits_for_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuda_harness.tools.verify.cases.AT_ONCE", 4)
    executor = Observed(lambda x, a, call, job: scaled(x, a + (x.size > 1), call, job))
    assert not verdict(executor).accepted
    beside = [job.over for job in executor.jobs if job.over is not None]
    assert beside
    assert all(event.is_set() for event in beside)


@pytest.mark.parametrize("at_once", [1, 4])
def test_equal_sizes_keep_each_its_own_order(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A size beyond a limit of the plan (257 threads) may be one of many blocks as well."""
    monkeypatch.setattr("cuda_harness.tools.verify.cases.AT_ONCE", at_once)
    executor = Observed()
    assert verdict(executor).accepted
    orders: dict[int, set[int]] = {}
    for job in executor.jobs:
        if job.mode == "check":
            orders.setdefault(job.program.buffers[0].count, set()).add(job.poison % ORDERS)
    assert any(len(found) > 1 for found in orders.values())
    assert MIXED in orders[258]


def test_a_size_that_takes_too_long_in_check_mode_blames_nobody() -> None:
    assert verdict(Observed(only_beyond(JobFault("timeout", "no end")))).accepted


@pytest.mark.parametrize("wrong_with", [1, 132])
def test_the_plan_must_be_right_for_any_number_of_multiprocessors(wrong_with: int) -> None:
    plan = {"steps": [{**PLAN["steps"][0], "grid": ["min(cdiv(n, 64), num_sms * 64)"]}]}
    ir = {**IR, "dims": [{"name": "n", "value": 70_000}]}
    seen: set[int] = set()

    def answer(x: Any, a: float, call: int, job: Job) -> Any:
        blocks = job.program.ops[0].grid[0]  # type: ignore[union-attr]
        seen.add(blocks)
        few = 64 * wrong_with
        wrong = x.size > 60_000 and blocks == min(-(-x.size // 64), few)
        return scaled(x, a + (1.0 if wrong else 0.0), call, job)

    cpu = ScriptedExecutor(answer, name="cpu")
    cpu.device = lambda: type(ScriptedExecutor().device())("scripted", num_sms=8)  # type: ignore[method-assign]
    found = verdict(cpu, ir=ir, plan=plan)
    assert found.failure is not None
    assert found.failure.class_ == "mismatch"
    assert 64 in seen


def test_runs_side_by_side_are_judged_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    alone: list[Verdict] = []
    beside = threading.Barrier(3, timeout=20)

    def late(x: Any, a: float, call: int, job: Job) -> Any:
        """Wait for two others in check mode, but for the first run; be wrong at all sizes of several elements."""
        if job.mode == "check" and x.size > 1 and alone:
            beside.wait()
        return scaled(x, a + (1.0 if x.size > 1 else 0.0), call, job)

    for count in (1, 3):
        monkeypatch.setattr("cuda_harness.tools.verify.cases.AT_ONCE", count)
        found = verdict(Observed(late))
        assert found.failure is not None
        alone.append(found)
    assert alone[0].failure == alone[1].failure


def test_nothing_runs_beside_a_first_case_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuda_harness.tools.verify.cases.AT_ONCE", 4)
    executor = Observed(lambda *_: JobFault("out_of_bounds", "line 4"))
    assert not verdict(executor).accepted
    assert len(executor.jobs) == 1


def test_sizes_go_beyond_what_a_plan_may_take_for_a_limit() -> None:
    """A grid held down to 64 blocks, a second kernel of one block over the tiles, an array of 1024 weights."""
    ir = KernelIR.model_validate({
        "name": "smooth", "dims": [{"name": "n", "value": 512}, {"name": "a", "value": 8}, {"name": "b", "value": 8}],
        "constraints": ["a <= n"],
        "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
                    {"name": "w", "role": "in", "dtype": "float32", "shape": ["a", "b"]},
                    {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
        "cost": {"flops": "n", "bytes": "8*n"},
    })  # fmt: skip
    plan = LaunchPlan.model_validate({
        "scratch": [{"name": "sums", "dtype": "float32", "shape": ["cdiv(n, 1024)"]}],
        "steps": [{"launch": "k", "grid": ["min(cdiv(n, 128), 64)"], "block": [128], "args": ["x", "w", "sums", "y"]}],
    })  # fmt: skip
    found = beyond(Kernel(source="__shared__ float kept[1024];", plan=plan), ir, budget=1 << 24)
    assert all(ir.admits(s) for s in found)
    assert any(-(-s["n"] // 128) > 64 for s in found)
    assert any(-(-s["n"] // 1024) > 128 for s in found)
    assert any(s["a"] * s["b"] > 1024 for s in found)
    assert all(s["n"] < 1000 for s in beyond(Kernel(source="", plan=plan), ir, budget=4))


def test_the_fewest_elements_are_tried_where_none_are_allowed() -> None:
    """With sizes from zero on, random sizes hardly ever are one to seven elements in all."""
    ir = {
        **IR, "dims": [{"name": "r", "value": 64, "min": 0}, {"name": "n", "value": 64, "min": 0}],
        "tensors": [{**t, "shape": ["r", "n"]} for t in IR["tensors"]],
    }  # fmt: skip
    plan = {
        "steps": [{**PLAN["steps"][0], "grid": ["max(1, cdiv(r * n, 64))"], "args": ["x", "y", "a", "r * n"]}]
    }
    executor = ScriptedExecutor()
    found = verdict(executor, ir=ir, plan=plan)
    assert found.accepted, found.failure
    assert {1, 3, 5} <= sizes_in_check_mode(executor)
