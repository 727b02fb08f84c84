"""The Coder: what it is shown, what it writes, and what becomes of an unusable reply."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.scripted_model import Line, ScriptedChatModel
from tests.fakes.services import FakeRuntime, FakeServices

from cuda_harness.agents.coder import (
    failure_of,
    history_line,
    measured_lines,
    next_task,
    write_branch_kernel,
    write_kernel,
)
from cuda_harness.agents.reply import Reply, not_applicable
from cuda_harness.state.attempt import Attempt
from cuda_harness.state.budget import Budget
from cuda_harness.state.errors import ModelRefused, StateError
from cuda_harness.state.harness import BranchCoderView, CoderView
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.results import Failure, Profile, Timing, Verdict
from cuda_harness.state.rounds import BranchEnd, BranchPlan

IR = KernelIR.model_validate(
    {
        "name": "double_it",
        "dims": [{"name": "n", "value": 1000, "min": 0}],
        "tensors": [
            {"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
            {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]},
        ],
        "steps": [{"id": "s", "op": "scale", "reads": ["x"], "writes": ["y"], "formula": "y[i] = 2*x[i]"}],
    }
)
PLAN = {"steps": [{"launch": "k", "grid": ["cdiv(n, 256)"], "block": [256], "args": ["x", "y", "n"]}]}


def source(factor: int) -> str:
    return (
        'extern "C" __global__ void k(const float* x, float* y, int n) {\n'
        "  const int i = blockIdx.x * 256 + threadIdx.x;\n"
        f"  if (i < n) y[i] = {factor}.f * x[i];\n}}\n"
    )


def written(factor: int, plan: dict[str, Any] = PLAN) -> str:
    return f"Here.\n```cuda\n{source(factor)}```\n```json\n{json.dumps(plan)}\n```\n"


def failed(fault: str = "mismatch", message: str = "y[0] is 3, not 2", **evidence: Any) -> Verdict:
    outcome = "undecided" if fault in {"environment", "unsupported"} else "rejected"
    failure = Failure.model_validate(
        {"stage": "shapes", "class": fault, "message": message, "evidence": evidence}
    )
    return Verdict(outcome=outcome, executor="cpu", failure=failure)


def view(*attempts: Attempt, **fields: Any) -> CoderView:
    return CoderView(run_dir="run", target="sm_90a", ir=IR, attempts={a.id: a for a in attempts}, **fields)


class Run:
    """A run whose coder answers from a script; verdicts are given by the test."""

    def __init__(self, root: Path, *script: Line | str) -> None:
        self.model = ScriptedChatModel(*script)
        self.services = FakeServices(root, {"coder": self.model})
        self.attempts: dict[int, Attempt] = {}

    def write(self, **fields: Any) -> Attempt:
        update = write_kernel(view(*self.attempts.values(), **fields), FakeRuntime(self.services))  # type: ignore[arg-type]
        self.attempts |= update["attempts"]
        return self.attempts[max(self.attempts)]

    def judge(self, verdict: Verdict) -> None:
        last = max(self.attempts)
        self.attempts[last] = self.attempts[last].model_copy(update={"verdict": verdict})

    @property
    def asked(self) -> str:
        return str(self.model.seen[-1][1].content)


def test_the_first_kernel_is_saved_with_prompt_and_reply(tmp_path: Path) -> None:
    run = Run(tmp_path, written(2))
    attempt = run.write()
    assert (attempt.id, attempt.parent, attempt.strategy, attempt.status) == (1, None, "first", "written")
    kernel = run.services.folder.load_kernel(1)
    assert kernel.sha256 == attempt.sha256
    assert kernel.source == source(2)
    assert "## IR" in (tmp_path / "attempts/001/prompt.md").read_text()
    assert (tmp_path / "attempts/001/reply.md").read_text() == written(2)


def test_the_prompt_of_a_first_kernel_has_no_feedback(tmp_path: Path) -> None:
    run = Run(tmp_path, written(2))
    run.write()
    for heading in ("## Last kernel", "## Failure", "## History"):
        assert heading not in run.asked
    assert run.asked.count("When it pays") == 2


def test_a_repair_shows_kernel_failure_history_and_the_advice_of_its_class(tmp_path: Path) -> None:
    run = Run(tmp_path, written(3), written(2))
    run.write()
    run.judge(failed("data_race", "line 3: two threads write y[0]", line=3, other_line=2))
    attempt = run.write()
    assert (attempt.id, attempt.parent, attempt.strategy) == (2, 1, "repair")
    assert source(3) in run.asked
    assert '"class": "data_race"' in run.asked
    assert '"3": "  if (i < n) y[i] = 3.f * x[i];"' in run.asked
    assert "1 first: rejected, data_race at shapes: line 3: two threads write y[0]" in run.asked
    assert "Two threads touch the same address" in run.asked


def test_an_identical_kernel_is_sent_back_before_it_is_built(tmp_path: Path) -> None:
    run = Run(tmp_path, written(3), written(3).replace("Here.", "Mended."), written(2))
    run.write()
    run.judge(failed())
    assert run.write().status == "written"
    assert "this is attempt 1 again" in str(run.model.seen[-1][3].content)
    assert run.model.left == 0


def test_a_reply_without_a_kernel_is_an_attempt_without_one(tmp_path: Path) -> None:
    run = Run(tmp_path, "no idea", "still none", written(2))
    attempt = run.write()
    assert attempt.status == "unusable"
    assert "no fenced `json` block" in attempt.unusable
    assert (tmp_path / "attempts/001/reply.md").read_text() == "still none"
    again = run.write()
    assert (again.status, again.parent, again.strategy) == ("written", 1, "repair")
    assert "Your last reply held no kernel" in run.asked
    assert '"class": "unusable"' in run.asked


def test_the_kernel_before_an_unusable_reply_is_shown(tmp_path: Path) -> None:
    run = Run(tmp_path, written(3), "no", "no", written(2))
    run.write()
    run.judge(failed())
    run.write()
    run.write()
    assert source(3) in run.asked


def test_after_a_reply_without_a_kernel_the_failure_is_shown_still(tmp_path: Path) -> None:
    run = Run(tmp_path, written(3), written(3), written(3), written(2))
    run.write()
    run.judge(failed("mismatch", "y[0] is 3, not 2"))
    assert run.write().duplicate_of == 1
    run.write()
    failure = json.loads(re.search(r"## Failure\n```json\n(.*?)\n```", run.asked, re.DOTALL)[1])  # type: ignore[index]
    assert failure["class"] == "mismatch"
    assert "attempt 1 again" in failure["last_reply"]
    assert "Read the pattern" in run.asked


def test_a_plan_that_is_invalid_says_where(tmp_path: Path) -> None:
    bad = {"steps": [{"launch": "k", "grid": [1], "block": [32], "arguments": []}]}
    run = Run(tmp_path, written(2, bad), written(2))
    assert run.write().status == "written"
    assert "steps.0.launch.arguments" in str(run.model.seen[-1][3].content)


def test_a_refusal_of_the_model_ends_the_run(tmp_path: Path) -> None:
    run = Run(tmp_path, '```json\n{"refused": "cannot be parallelised"}\n```')
    with pytest.raises(ModelRefused, match="cannot be parallelised"):
        run.write()


def test_a_design_that_keeps_failing_is_given_up_for_a_conservative_one(tmp_path: Path) -> None:
    run = Run(tmp_path, written(3), written(4), written(2))
    budget = Budget(repairs=1, redesigns=1)
    run.write()
    run.judge(failed())
    run.write(budget=budget)
    run.judge(failed("precision", "off by 2"))
    attempt = run.write(budget=budget)
    assert (attempt.strategy, attempt.parent) == ("redesign", None)
    assert "the most conservative mapping" in run.asked
    assert "## Last kernel" not in run.asked
    assert "2 repair: rejected, precision" in run.asked


def test_a_spent_correctness_budget_stops() -> None:
    attempt = Attempt(id=1, sha256="a", verdict=failed())
    assert next_task(view(attempt, budget=Budget(repairs=0, redesigns=0))) is None


def test_a_resumed_node_makes_no_second_call(tmp_path: Path) -> None:
    first = Run(tmp_path, written(2))
    attempt = first.write()
    again = Run(tmp_path)
    assert again.write() == attempt
    assert again.model.seen == []


def test_a_verified_kernel_is_only_improved_in_branches() -> None:
    attempt = Attempt(id=1, sha256="a", verdict=Verdict(outcome="accepted", executor="cpu"))
    with pytest.raises(StateError, match="only branches improve"):
        next_task(view(attempt))


def test_the_coder_needs_an_ir(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="without an IR"):
        write_kernel(CoderView(run_dir="r"), FakeRuntime(FakeServices(tmp_path)))  # type: ignore[arg-type]


def test_history_is_one_line_each() -> None:
    lines = [
        history_line(Attempt(id=1, sha256="a", verdict=failed("compile", "a\nb\tc"))),
        history_line(Attempt(id=2, unusable="no\nblock")),
        history_line(Attempt(id=3, sha256="a")),
    ]
    assert lines == [
        "1 first: rejected, compile at shapes: a b c",
        "2 first: no usable kernel: no block",
        "3 first: written",
    ]


def test_lines_of_diagnostics_are_quoted() -> None:
    from cuda_harness.state.kernel import Kernel, LaunchPlan

    kernel = Kernel(source=source(2), plan=LaunchPlan.model_validate(PLAN))
    verdict = failed("compile", "x", diagnostics=[{"line": 1}, {"line": None}, {"line": 99}, {"line": True}])
    shown = failure_of(Attempt(id=1, sha256="a", verdict=verdict), kernel)
    assert list(shown["source_lines"]) == ["1"]


def test_an_idea_that_does_not_apply_ends_its_branch_without_an_attempt(tmp_path: Path) -> None:
    run = Run(tmp_path, written(2), '```json\n{"not_applicable": "it has it"}\n```')
    run.write()
    run.judge(Verdict(outcome="accepted", executor="cpu"))
    plan = BranchPlan(name="r1b1", parent=1, strategy="vector_loads", idea="wider", first=2, last=5)
    state = BranchCoderView(run_dir="run", plan=plan, ir=IR, attempts=run.attempts, target="sm_90a")
    update = write_branch_kernel(state, FakeRuntime(run.services))  # type: ignore[arg-type]
    assert update == {"ended": {"r1b1": BranchEnd(reason="not_applicable", detail="it has it")}}
    assert "vector_loads: wider" in run.asked
    assert run.model.left == 0


def test_an_idea_comes_with_what_was_measured_of_the_kernel_it_starts_from(tmp_path: Path) -> None:
    run = Run(tmp_path, written(2), '```json\n{"not_applicable": "it has it"}\n```')
    run.write()
    run.judge(Verdict(outcome="accepted", executor="cpu"))
    profile = Profile(
        rung="ncu", bound="latency", sentence="Latency-bound: warps wait for loads.", evidence=("long scoreboard 12.3 of 14 cycles",)
    )  # fmt: skip
    timing = Timing(median_us=71.25, ci95_us=(71.0, 71.5), samples=30, sol_fraction=0.52, device="H200")
    timed = {1: run.attempts[1].model_copy(update={"profile": profile, "timing": timing})}
    plan = BranchPlan(name="r1b1", parent=1, strategy="vector_loads", idea="wider", first=2, last=5)
    state = BranchCoderView(run_dir="run", plan=plan, ir=IR, attempts=timed, target="sm_90a")
    write_branch_kernel(state, FakeRuntime(run.services))  # type: ignore[arg-type]
    measured = run.asked[run.asked.index("## Measured") :]
    for told in ("71.25 us", "52% of what the device allows", "warps wait for loads", "long scoreboard 12.3"):
        assert told in measured


def test_without_a_time_or_a_profile_nothing_is_measured() -> None:
    assert measured_lines(Attempt(id=1, sha256="a")) == []
    assert measured_lines(None) == []


def test_an_author_may_give_an_idea_up_after_a_failure_in_its_branch(tmp_path: Path) -> None:
    run = Run(tmp_path, written(2), written(3), '```json\n{"not_applicable": "no way"}\n```')
    run.write()
    run.judge(Verdict(outcome="accepted", executor="cpu"))
    plan = BranchPlan(name="r1b1", parent=1, strategy="vector_loads", idea="wider", first=2, last=5)
    for end in (None, BranchEnd(reason="not_applicable", detail="no way")):
        state = BranchCoderView(run_dir="run", plan=plan, ir=IR, attempts=run.attempts, target="sm_90a")
        update = write_branch_kernel(state, FakeRuntime(run.services))  # type: ignore[arg-type]
        if end is None:
            run.attempts |= update["attempts"]
            run.judge(failed())
        else:
            assert update == {"ended": {"r1b1": end}}
    assert "not_applicable" in run.asked
    assert run.attempts[2].status == "rejected"


def test_outside_of_a_branch_nothing_is_declined(tmp_path: Path) -> None:
    run = Run(tmp_path, '```json\n{"not_applicable": "hm"}\n```', written(2))
    assert run.write().sha256 is not None
    assert run.model.left == 0
    assert "not_applicable" not in str(run.model.seen[0][1].content)


def test_a_reply_with_a_plan_is_no_declined_idea() -> None:
    both = Reply(written(2) + '```json\n{"not_applicable": "hm"}\n```')
    assert not_applicable(both, ("steps",)) == ""
    assert not_applicable(Reply('```json\n{"not_applicable": ""}\n```'), ("steps",)) == "no reason was given"
