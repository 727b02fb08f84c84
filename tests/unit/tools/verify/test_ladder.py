"""The ladder with a scripted executor and compiler: stages, outcomes, and nothing vacuously true."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel, LaunchPlan
from cuda_harness.state.results import (
    REQUIRED,
    STAGES,
    CompileEnvironment,
    CompileOk,
    CompileRejected,
    CompileResult,
    CompileTimedOut,
    Diagnostic,
    InstructionMix,
    KernelFacts,
    LowPrecision,
    StageResult,
    Verdict,
)
from cuda_harness.tools.execute.protocol import (
    Array,
    CallOutput,
    DeviceFacts,
    Job,
    JobFault,
    JobNotRun,
    JobOk,
    JobResult,
)
from cuda_harness.tools.synthesize.reference import Question, ReferenceFault, Truth
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.verify.climb import critical_sizes
from cuda_harness.tools.verify.ladder import doubt_suite, judge

SOURCE = 'extern "C" __global__ void k(const float* x, float* y, float a, int n) {}'
PLAN: dict[str, Any] = {
    "steps": [{"launch": "k", "grid": ["cdiv(n, 64)"], "block": [64], "args": ["x", "y", "a", "n"]}]
}
IR: dict[str, Any] = {
    "name": "scale", "dims": [{"name": "n", "value": 200_000}],
    "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
                {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
    "scalars": [{"name": "a", "dtype": "float32", "value": 2.0, "low": 0.5, "high": 3.0}],
    "cost": {"flops": "n", "bytes": "8*n"},
}  # fmt: skip
COMPILED = CompileOk(
    arch="sm_90a",
    cubin_sha256="0",
    cubin_path="k.cubin",
    seconds=0.1,
    kernels=(KernelFacts(name="k", registers=16),),
)
Answer = Callable[[Array, float, int, Job], Array | JobResult]


def scaled(x: Array, a: float, _call: int, _job: Job) -> Array:
    return (a * x).astype(np.float32)


@dataclass
class ScriptedExecutor:
    """Answers each call of a job with a function of its input."""

    answer: Answer = scaled
    name: str = "scripted"
    modes: frozenset[str] = frozenset({"plain", "check"})
    unwritten: int = 0
    jobs: list[Job] = field(default_factory=list)

    def device(self) -> DeviceFacts:
        return DeviceFacts("scripted")

    def run(self, job: Job) -> JobResult:
        self.jobs.append(job)
        launch = job.program.ops[0]
        outputs = []
        for number, call in enumerate(job.calls):
            made = self.answer(call["x"], float(launch.args[2].value), number, job)  # type: ignore[union-attr]
            if not isinstance(made, np.ndarray):
                return made
            outputs.append(CallOutput({"y": made}, {"y": self.unwritten}, {}))
        return JobOk(tuple(outputs), seconds=0.0)

    def close(self) -> None: ...


@dataclass
class ScriptedCompiler:
    result: CompileResult = COMPILED

    def compile(self, source: str, **_options: Any) -> CompileResult:
        return self.result


@dataclass
class InProcessReference:
    """Stands in for the contained child: the reference is a function of this test."""

    function: Callable[[Array, float], Array] = lambda x, a: a * x.astype(np.float64)
    fault: ReferenceFault | None = None

    def evaluate(
        self, _source: str, _ir: KernelIR, questions: Sequence[Question], **_limits: Any
    ) -> list[Truth] | ReferenceFault:
        if self.fault is not None:
            return self.fault
        return [
            Truth({"y": self.function(np.asarray(q.inputs["x"]), float(q.scalars["a"]))}, {})
            for q in questions
        ]

    def evaluate_each(
        self, _source: str, ir: KernelIR, questions: Sequence[Question], **limits: Any
    ) -> list[Truth | None] | ReferenceFault:
        found = self.evaluate(_source, ir, questions, **limits)
        return found if isinstance(found, ReferenceFault) else list(found)


def suite_of(ir: KernelIR, runner: Any = None) -> Suite:
    return Suite(ir, "reference", runner=runner or InProcessReference(), seed=11)


def verdict(
    executor: ScriptedExecutor | None = None, *, ir: Mapping[str, Any] = IR, plan: Mapping[str, Any] = PLAN, source: str = SOURCE,
    compiled: CompileResult = COMPILED, runner: Any = None, **options: Any,
) -> Verdict:  # fmt: skip
    document = KernelIR.model_validate(ir)
    kernel = Kernel(source=source, plan=LaunchPlan.model_validate(plan))
    return judge(
        kernel, document, suite_of(document, runner), executor=executor or ScriptedExecutor(),  # type: ignore[arg-type]
        compiler=ScriptedCompiler(compiled), target="sm_90a", **{"seed": 1, "max_seconds": 60.0, **options},  # type: ignore[arg-type]
    )  # fmt: skip


def status(found: Verdict, stage: Any) -> str:
    result = found.stage(stage)
    assert result is not None
    return result.status


def test_an_honest_kernel_passes_every_stage_that_is_required() -> None:
    seen: list[StageResult] = []
    found = verdict(on_stage=seen.append)
    assert found.accepted, found.failure
    assert {s.name for s in found.stages if s.status == "passed"} == {*REQUIRED, "tiny"}
    assert tuple(s.name for s in found.stages) == STAGES
    assert [s.name for s in seen] == list(STAGES)
    covered = found.stage("values").covered  # type: ignore[union-attr]
    assert covered["cases"] > 5
    assert "large" in covered["regimes"]


def test_several_hidden_calls_run_in_one_process_with_two_poisons() -> None:
    executor = ScriptedExecutor()
    verdict(executor)
    first, again = executor.jobs[-2:]
    assert 5 <= len(first.calls) == len(again.calls)
    assert first.poison != again.poison
    assert len({call["x"].tobytes() for call in first.calls}) == len(first.calls)


def wrong_after(calls: int) -> Answer:
    return lambda x, a, call, job: scaled(x, a, call, job) + (call >= calls and len(job.calls) > 3)


def wrong_beyond(n: int) -> Answer:
    return lambda x, a, call, job: scaled(x, a, call, job) * np.float32(1.5 if x.size > n else 1)


@pytest.mark.parametrize(
    ("answer", "stage", "class_"),
    [
        (wrong_beyond(0), "tiny", "mismatch"),
        (wrong_beyond(100_000), "target", "mismatch"),
        (wrong_after(3), "repeat", "mismatch"),
        (lambda x, a, _c, _j: (a * x.astype(np.float16)).astype(np.float32), "tiny", "precision"),
        (lambda x, _a, _c, _j: np.full_like(x, np.nan), "tiny", "nonfinite"),
        (lambda *_: JobFault("data_race", "line 3: a race"), "tiny", "data_race"),
        (lambda *_: JobFault("timeout", "no end"), "tiny", "timeout"),
    ],
)
def test_a_wrong_kernel_is_rejected_where_it_shows(answer: Answer, stage: str, class_: str) -> None:
    found = verdict(ScriptedExecutor(answer))
    assert (found.outcome, found.failure and found.failure.stage) == ("rejected", stage)
    assert found.failure is not None
    allowed = {class_, "mismatch"} if class_ == "precision" else {class_}
    assert found.failure.class_ in allowed
    assert status(found, stage) == "failed"
    later = STAGES[STAGES.index(stage) + 1 :]  # type: ignore[arg-type]
    assert {status(found, s) for s in later} == {"not_measured"}


def test_the_failure_quotes_one_element_and_the_sizes() -> None:
    found = verdict(ScriptedExecutor(wrong_beyond(0)))
    assert found.failure is not None
    assert {"index", "got", "expected", "shape", "dims", "regime"} <= set(found.failure.evidence)
    assert "constant factor of 1.5" in found.failure.message or found.failure.evidence["of"] == 1
    assert not any(isinstance(v, (list, tuple)) and len(v) > 4 for v in found.failure.evidence.values())


def test_bytes_never_written_are_named() -> None:
    found = verdict(ScriptedExecutor(unwritten=8))
    assert found.failure is not None
    assert found.failure.class_ == "unwritten_output"


def drifting() -> Answer:
    """Right within the tolerance, with other bits in each process."""
    return lambda x, a, call, job: np.nextafter(scaled(x, a, call, job), np.float32(job.poison % 2 * 9e9))


def test_other_bits_are_a_warning_unless_determinism_is_asked_for() -> None:
    free = verdict(ScriptedExecutor(drifting()))
    assert free.accepted
    assert any("bits" in w for w in free.warnings)
    strict = verdict(ScriptedExecutor(drifting()), ir={**IR, "numerics": {"deterministic": True}})
    assert strict.failure is not None
    assert (strict.outcome, strict.failure.class_) == ("rejected", "nondeterministic")


def test_other_bits_need_something_that_explains_them() -> None:
    plain = InstructionMix(kernel="k", total=9)
    compiled = COMPILED.model_copy(update={"mixes": (plain,)})
    unexplained = verdict(ScriptedExecutor(drifting()), compiled=compiled)
    assert unexplained.failure is not None
    assert (unexplained.failure.stage, unexplained.failure.class_) == ("repeat", "nondeterministic")
    assert "no atomics or fences" in unexplained.failure.message
    atomics = COMPILED.model_copy(update={"mixes": (plain.model_copy(update={"atomics": 1}),)})
    assert verdict(ScriptedExecutor(drifting()), compiled=atomics).accepted
    fenced = SOURCE.replace("{}", "{ __threadfence(); }")
    assert verdict(ScriptedExecutor(drifting()), compiled=compiled, source=fenced).accepted


def late(size: int) -> Answer:
    """Other bits in each order, where there are elements enough."""
    return lambda x, a, call, job: drifting()(x, a, call, job) if x.size > size else scaled(x, a, call, job)


def test_float_atomics_are_judged_by_their_bits_under_determinism() -> None:
    source = SOURCE.replace("{}", "{ atomicAdd(&y[n], a); }")
    deterministic = {**IR, "numerics": {"deterministic": True}}
    assert verdict(source=source).accepted
    same = verdict(source=source, ir=deterministic)
    assert same.accepted, same.failure
    assert any("equal in 3 runs in other orders, so it is accepted" in w for w in same.warnings)
    other = verdict(ScriptedExecutor(late(3_000)), source=source, ir=deterministic)
    assert other.failure is not None
    assert (other.failure.stage, other.failure.class_) == ("repeat", "nondeterministic")
    assert "in another order" in other.failure.message
    assert other.failure.evidence["line"] == 1


def test_without_a_checker_tiny_is_not_measured_and_does_not_block() -> None:
    found = verdict(ScriptedExecutor(modes=frozenset({"plain"})))
    assert found.accepted
    assert status(found, "tiny") == "not_measured"


def test_what_the_checker_cannot_run_has_not_passed() -> None:
    checker = ScriptedExecutor(lambda *_: JobNotRun("unsupported", "wgmma"))
    found = verdict(ScriptedExecutor(modes=frozenset({"plain"})), checker=checker)
    assert found.accepted
    tiny = found.stage("tiny")
    assert tiny is not None
    assert tiny.status == "not_measured"
    assert "wgmma" in tiny.detail


@pytest.mark.parametrize("reason", ["unsupported", "resources", "environment"])
def test_a_job_that_did_not_run_leaves_the_kernel_undecided(reason: Any) -> None:
    found = verdict(ScriptedExecutor(lambda *_: JobNotRun(reason, "no")))
    assert found.failure is not None
    assert (found.outcome, found.failure.class_, found.failure.is_candidates) == ("undecided", reason, False)


@pytest.mark.parametrize(
    ("compiled", "outcome", "class_"),
    [
        (
            CompileRejected(
                diagnostics=(Diagnostic(severity="error", line=7, message="expected ;"),), seconds=0.1
            ),
            "rejected",
            "compile",
        ),
        (CompileTimedOut(seconds=60), "rejected", "compile"),
        (CompileEnvironment(message="no NVRTC", remedy="install it"), "undecided", "environment"),
    ],
)
def test_compile_results_are_told_apart(compiled: CompileResult, outcome: str, class_: str) -> None:
    found = verdict(compiled=compiled)
    assert found.failure is not None
    assert (found.outcome, found.failure.class_, found.failure.stage) == (outcome, class_, "compile")


HALVED = InstructionMix(
    kernel="k", total=9, low_precision=(LowPrecision(instruction="add.f16", count=5, line=6),)
)


@pytest.mark.parametrize(
    ("changes", "accepted"),
    [
        ({}, False),
        ({"numerics": {"precision": "allow_half"}}, True),
        ({"summary": "Scaling in half precision."}, True),
        ({"intermediates": [{"name": "t", "dtype": "float16", "shape": ["n"]}]}, True),
    ],
)
def test_narrow_arithmetic_is_a_matter_of_precision_only_where_strict_float_data_are_asked_for(
    changes: dict[str, Any], accepted: bool
) -> None:
    found = verdict(compiled=COMPILED.model_copy(update={"mixes": (HALVED,)}), ir={**IR, **changes})
    assert found.accepted is accepted
    if found.failure is not None:
        assert (found.failure.stage, found.failure.class_) == ("compile", "precision")
        assert found.failure.evidence == {"instruction": "add.f16", "count": 5, "line": 6}
        assert "line 6: 'k' computes by add.f16 (5 in its code)" in found.failure.message


def test_narrow_arithmetic_of_a_kernel_that_is_not_launched_does_not_matter() -> None:
    other = HALVED.model_copy(update={"kernel": "other"})
    assert verdict(compiled=COMPILED.model_copy(update={"mixes": (other,)})).accepted


def test_limits_of_a_launch_are_explained_with_arithmetic() -> None:
    greedy = COMPILED.model_copy(update={"kernels": (KernelFacts(name="k", registers=255),)})
    plan = {"steps": [{**PLAN["steps"][0], "block": [512]}]}
    found = verdict(compiled=greedy, plan=plan)
    assert found.failure is not None
    assert found.failure.class_ == "launch_config"
    assert "255 x 512 = 130560" in found.failure.message


@pytest.mark.parametrize(
    ("source", "plan", "stage"),
    [
        ("int f();", PLAN, "parse"),
        (SOURCE, {"steps": [{**PLAN["steps"][0], "launch": "other"}]}, "parse"),
        (SOURCE, {"steps": [{**PLAN["steps"][0], "grid": ["n // (n - 200000)"]}]}, "launch_config"),
        (SOURCE, {**PLAN, "compile": {"fast_math": True}}, "policy"),
        ('#include "/etc/passwd"\n' + SOURCE, PLAN, "policy"),
    ],
)
def test_what_needs_no_run_is_refused_at_its_own_stage(source: str, plan: dict[str, Any], stage: str) -> None:
    found = verdict(source=source, plan=plan)
    assert found.failure is not None
    assert (found.outcome, found.failure.stage, status(found, stage)) == ("rejected", stage, "failed")


def test_a_slow_cpu_reduces_the_target_instead_of_blaming_the_kernel() -> None:
    def slow(x: Array, a: float, call: int, job: Job) -> Array | JobResult:
        return JobFault("timeout", "slow") if x.size > 100_000 else scaled(x, a, call, job)

    found = verdict(ScriptedExecutor(slow, name="cpu"), ir={**IR, "dims": [{"name": "n", "value": 900_000}]})
    target = found.stage("target")
    assert found.accepted, found.failure
    assert target is not None
    assert target.scaled is not None
    assert target.scaled["n"] <= 100_000


def test_time_that_is_over_leaves_the_kernel_undecided() -> None:
    found = verdict(max_seconds=1e-9)
    assert found.failure is not None
    assert (found.outcome, found.failure.class_) == ("undecided", "resources")


def test_a_reference_that_fails_is_never_the_kernels_fault() -> None:
    found = verdict(runner=InProcessReference(fault=ReferenceFault("raised", "the reference failed: x")))
    assert found.failure is not None
    assert (found.outcome, found.failure.class_) == ("undecided", "oracle")


def test_fixed_sizes_are_named() -> None:
    assert verdict().verified_for is None
    fixed = verdict(ir={**IR, "dims": [{"name": "n", "value": 20_000, "fixed": True}]})
    assert fixed.verified_for == {"n": 20_000}


def test_sizes_around_the_kernels_own_numbers_are_tried() -> None:
    plan = LaunchPlan.model_validate({"tunables": {"TILE": [48]}, "steps": [
        {"repeat": {"var": "t", "count": 2}, "steps": [{"launch": "k", "grid": ["cdiv(n, 512)"], "block": ["TILE", 4]}]}]})  # fmt: skip
    assert critical_sizes(plan) == [48, 192, 512]


@pytest.mark.parametrize(
    ("function", "class_"),
    [
        (lambda x, _a: np.ones(x.shape), "oracle"),
        (lambda x, a: np.full(x.shape, a + x.astype(np.float64).sum() * 0), "oracle"),
    ],
)
def test_a_suite_that_cannot_tell_may_not_judge(function: Any, class_: str) -> None:
    doubt = doubt_suite(suite_of(KernelIR.model_validate(IR), InProcessReference(function)), ())
    assert doubt is not None
    assert doubt.class_ == class_


def test_an_honest_suite_is_not_doubted() -> None:
    assert doubt_suite(suite_of(KernelIR.model_validate(IR)), (64,)) is None


def test_a_target_beyond_the_devices_memory_is_reduced_and_told() -> None:
    def small_memory(x: Array, a: float, call: int, job: Job) -> Array | JobResult:
        if x.size > 100_000:
            numbers = {"needed_bytes": 8 * x.size, "usable_bytes": 800_000}
            return JobNotRun("resources", "the buffers need more than is free", evidence=numbers)
        return scaled(x, a, call, job)

    executor = ScriptedExecutor(small_memory)
    found = verdict(executor)
    target = found.stage("target")
    assert target is not None
    assert (found.outcome, target.status) == ("accepted", "passed"), found.failure
    assert target.scaled is not None
    assert 40_000 <= target.scaled["n"] <= 80_000
    assert "reduced to what memory holds" in target.detail


@pytest.mark.parametrize("name", ["cpu", "cuda:0"])
def test_a_target_beyond_the_hosts_memory_is_reduced_and_told(name: str) -> None:
    def small_memory(x: Array, a: float, call: int, job: Job) -> Array | JobResult:
        return JobNotRun("resources", "less is free") if x.size > 100_000 else scaled(x, a, call, job)

    found = verdict(
        ScriptedExecutor(small_memory, name=name), ir={**IR, "dims": [{"name": "n", "value": 400_000}]}
    )
    target = found.stage("target")
    assert target is not None
    assert (found.outcome, target.status) == ("accepted", "passed"), found.failure
    assert target.scaled is not None
    assert 10_000 <= target.scaled["n"] <= 100_000


def test_the_second_process_of_repeat_has_served_nobody() -> None:
    executor = ScriptedExecutor()
    verdict(executor)
    assert [job.fresh_process for job in executor.jobs[-2:]] == [False, True]
    assert not any(job.fresh_process for job in executor.jobs[:-1])


@dataclass
class Device(ScriptedExecutor):
    """A device without check mode, whose runs are seen as they come."""

    name: str = "cuda:0"
    modes: frozenset[str] = frozenset({"plain"})
    runs_ahead: bool = True


def beside(device: Device, checker: ScriptedExecutor, **options: Any) -> Verdict:
    return verdict(device, checker=checker, **options)


def told(found: Verdict) -> list[tuple[Any, ...]]:
    """Return all of a verdict but its seconds."""
    return [(s.name, s.status, s.detail, s.covered, s.scaled) for s in found.stages]


def test_a_device_runs_its_stages_while_the_cpu_checks_the_small_sizes() -> None:
    busy, device = threading.Event(), Device()

    def slow(x: Array, a: float, call: int, job: Job) -> Array | JobResult:
        if x.size > 100 and not busy.is_set():
            assert _eventually(
                lambda: any(j.fresh_process for j in device.jobs)
            )  # the last of all that it is asked for
            busy.set()
        return scaled(x, a, call, job)

    checker = ScriptedExecutor(slow, name="cpu")
    found = beside(device, checker)
    ran_ahead = len(device.jobs)

    assert found.accepted, found.failure
    assert busy.is_set()
    quiet, alone = Device(), ScriptedExecutor(name="cpu")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cuda_harness.tools.verify.stages._begin", lambda *_: None)
        assert told(beside(quiet, alone)) == told(found)
    assert len(quiet.jobs) == ran_ahead  # nothing ran twice
    assert sorted(j.poison for j in quiet.jobs) == sorted(j.poison for j in device.jobs)


def test_a_kernel_that_fails_its_first_small_size_never_reaches_the_device() -> None:
    device = Device()
    found = beside(device, ScriptedExecutor(lambda x, *_: np.zeros_like(x) + 7, name="cpu"))
    assert (found.outcome, found.failure and found.failure.stage) == ("rejected", "tiny")
    assert not device.jobs


def test_a_kernel_that_fails_a_later_small_size_is_judged_by_it_and_the_devices_run_is_ended() -> None:
    ended = threading.Event()

    def hangs(x: Array, a: float, call: int, job: Job) -> Array | JobResult:
        assert job.over is not None
        assert job.over.wait(20)
        ended.set()
        return JobNotRun("environment", "nobody waits for it any more")

    def wrong_later(x: Array, a: float, call: int, job: Job) -> Array | JobResult:
        if x.size < 100:
            return scaled(x, a, call, job)
        assert _eventually(lambda: bool(device.jobs))
        return x

    device = Device(hangs)
    found = beside(device, ScriptedExecutor(wrong_later, name="cpu"))
    assert (found.outcome, found.failure and found.failure.stage) == ("rejected", "tiny")
    assert ended.wait(20)
    assert len(device.jobs) == 1


def test_what_a_device_finds_ahead_of_its_stage_is_told_by_that_stage() -> None:
    device = Device(lambda *_: JobFault("out_of_bounds", "a write 4 bytes behind of 'y'"))
    found = beside(device, ScriptedExecutor(name="cpu"))
    assert (found.outcome, found.failure and found.failure.stage) == ("rejected", "shapes")
    assert status(found, "tiny") == "passed"
    assert len(device.jobs) == 1, "a fault costs a process: nothing runs ahead after one"


def test_a_fault_ahead_of_a_stage_that_is_not_reached_blames_nobody_for_what_follows() -> None:
    def only_repeat(x: Array, a: float, call: int, job: Job) -> Array | JobResult:
        return JobFault("crash", "it trapped") if len(job.calls) > 1 else scaled(x, a, call, job)

    device = Device(only_repeat)
    found = beside(device, ScriptedExecutor(name="cpu"))
    assert (found.outcome, found.failure and found.failure.stage) == ("rejected", "repeat")
    assert [status(found, s) for s in ("shapes", "values", "target")] == ["passed"] * 3


def test_what_a_stage_waits_for_overtakes_what_was_begun_ahead() -> None:
    """A plan whose grids end at two limits: sizes beyond them are not known before, and have eight seconds."""
    plan = {"steps": [{**PLAN["steps"][0], "grid": ["min(cdiv(n, 64), 1000)"]}]}

    def slow(x: Array, a: float, call: int, job: Job) -> Array | JobResult:
        time.sleep(0.05)
        return scaled(x, a, call, job) if x.size < 64_000 else x

    device = Device(slow)
    found = beside(device, ScriptedExecutor(name="cpu"), plan=plan)
    assert (found.outcome, found.failure and found.failure.stage) == ("rejected", "shapes"), found
    sizes = [j.calls[0]["x"].size for j in device.jobs]
    assert max(sizes) > 64_000
    assert not any(j.fresh_process for j in device.jobs), "the last that was begun had not had its turn"


def test_an_executor_that_does_not_say_so_is_asked_by_one_stage_at_a_time() -> None:
    asking: set[str] = set()

    def noted(x: Array, a: float, call: int, job: Job) -> Array | JobResult:
        asking.add(threading.current_thread().name)
        return scaled(x, a, call, job)

    device = Device(noted, runs_ahead=False)
    assert beside(device, ScriptedExecutor(name="cpu")).accepted
    assert asking == {threading.current_thread().name}


def _eventually(happened: Callable[[], bool]) -> bool:
    until = time.monotonic() + 20
    while not happened() and time.monotonic() < until:
        time.sleep(0.01)
    return happened()


class CountingReference(InProcessReference):
    """Counts the questions that a suite puts to its reference."""

    asked: int = 0

    def evaluate(self, source: str, ir: KernelIR, questions: Sequence[Question], **limits: Any) -> Any:
        self.asked += len(questions)
        return super().evaluate(source, ir, questions, **limits)


def test_the_next_candidate_of_a_run_costs_the_reference_nothing(tmp_path: Path) -> None:
    reference = CountingReference()
    ir = KernelIR.model_validate(IR)

    def judged(seed: int, plan: Mapping[str, Any] = PLAN) -> int:
        before = reference.asked
        suite = Suite(ir, "reference", runner=reference, seed=11, folder=tmp_path)  # type: ignore[arg-type]
        kernel = Kernel(source=SOURCE, plan=LaunchPlan.model_validate(plan))
        found = judge(
            kernel, ir, suite, executor=ScriptedExecutor(), compiler=ScriptedCompiler(), target="sm_90a", seed=seed,  # type: ignore[arg-type]
            max_seconds=60.0,
        )  # fmt: skip
        assert found.accepted
        return reference.asked - before

    first = judged(1)
    other_block = {"steps": [{**PLAN["steps"][0], "grid": ["cdiv(n, 96)"], "block": [96]}]}

    assert first > 50
    assert judged(1) == 0
    assert 0 < judged(1, other_block) < first  # its own sizes only


@pytest.mark.parametrize(("grid", "warned"), [(["1", "cdiv(n, 64)"], True), (["cdiv(n, 64)"], False)])
def test_a_maximum_at_which_the_plan_cannot_be_launched_is_a_warning(grid: list[str], warned: bool) -> None:
    """The grid's second axis ends at 65,535 blocks: sizes beyond are within the contract, and too large to run here."""
    ir = {**IR, "dims": [{"name": "n", "value": 100, "max": 16_777_216}]}
    found = verdict(ir=ir, plan={"steps": [{**PLAN["steps"][0], "grid": grid}]})
    assert found.accepted, found.failure
    told = [w for w in found.warnings if "n at its max 16777216" in w and "65535" in w]
    assert bool(told) == warned
