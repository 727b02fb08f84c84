"""Rounds of branches on the CPU executor: at once, each judged in full, decided by counts, the best never worse."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.scripted_model import Line, ScriptedChatModel

from cuda_harness import generate, resume
from cuda_harness.graph.runner import make_context
from cuda_harness.state.budget import Budget
from cuda_harness.state.ir import KernelIR
from cuda_harness.state.settings import Settings
from cuda_harness.tools.evolve.population import lineage

PLAN = {"tunables": {"BLOCK": [128]}, "steps": [
    {"launch": "k", "grid": ["cdiv(n, BLOCK)"], "block": ["BLOCK"], "args": ["x", "y", "n"]}]}  # fmt: skip
IR = KernelIR.model_validate({
    "name": "double_it", "dims": [{"name": "n", "value": 3000}],
    "tensors": [{"name": "x", "role": "in", "dtype": "float32", "shape": ["n"]},
                {"name": "y", "role": "out", "dtype": "float32", "shape": ["n"]}],
    "steps": [{"id": "s", "op": "scale", "reads": ["x"], "writes": ["y"], "formula": "y[i] = 2*x[i]"}],
})  # fmt: skip
HEAD = 'extern "C" __global__ void k(const float* x, float* y, int n) {\n  const int i = blockIdx.x * BLOCK + threadIdx.x;\n'
TWICE = HEAD + "  if (i < n) y[i] = x[i] + x[i];\n}\n"
ONCE = HEAD + "  if (i < n) {\n    const float v = x[i];\n    y[i] = v + v;\n  }\n}\n"
WRONG = HEAD + "  if (i < n) y[i] = 3.f * x[i];\n}\n"
WASTEFUL = HEAD + "  if (i < n) {\n    volatile const float* p = x;\n    y[i] = p[i] + p[i];\n  }\n}\n"


def reply(source: str) -> str:
    return f"```cuda\n{source}```\n```json\n{json.dumps(PLAN)}\n```\n"


class ByPrompt(ScriptedChatModel):
    """Answers each strategy with its own kernel, whatever order the branches come in."""

    def __init__(self, first: str, answers: dict[str, list[str]]) -> None:
        super().__init__()
        self._first, self._answers, self._turn = first, answers, threading.Lock()

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        branch = str((run_manager.metadata or {}).get("branch"))
        if branch == "main":
            text = self._first
        else:
            assert self._answers.get(branch), f"branch {branch} asked once more"
            text = self._answers[branch].pop(0)
        with self._turn:  # branches ask at once
            self._script.append(Line(text))
            return super()._generate(messages, stop, run_manager, **kwargs)


def run(tmp_path: Path, answers: dict[str, list[str]], first: str = WASTEFUL, **budget: Any) -> Any:
    return generate(
        "twice x", ir=IR, model="offline", models={"coder": ByPrompt(reply(first), answers)}, executor="cpu",
        out=tmp_path, seed=5, settings=Settings(), budget=Budget(branch_repairs=1, **budget),
    )  # fmt: skip


@pytest.mark.slow
def test_a_round_keeps_what_is_better_by_count_and_repairs_what_is_wrong(tmp_path: Path) -> None:
    answers = {"r1b1": [reply(WRONG), reply(TWICE)], "r1b2": [reply(WASTEFUL + "// the same\n")] * 2}
    result = run(tmp_path, answers, rounds=1, branches=2)
    assert result.status == "verified"
    assert result.stop["reason"] == "budget"
    first, second = result.document["branches"]
    assert first["attempts"] == [2, 3]
    assert first["kept"] is True
    assert first["basis"] == "counts"
    assert "bytes asked of global memory" in first["reason"]
    assert "time was not measured" in first["reason"]
    assert second["kept"] is False
    assert second["reason"] == "the author only repeated attempt 1"
    assert result.kernel is not None
    assert "x[i] + x[i]" in result.kernel.source
    graph = lineage(result.state.attempts, result.state.rounds)
    assert list(graph.edges) == [(1, 2), (1, 5), (2, 3)]


@pytest.mark.slow
def test_a_round_without_a_right_kernel_leaves_the_base(tmp_path: Path) -> None:
    answers = {
        "r1b1": [reply(WRONG), reply(WRONG.replace("3.f", "4.f"))],
        "r1b2": ['```json\n{"not_applicable": "a tenth block would change nothing"}\n```'],
    }
    result = run(tmp_path, answers, first=ONCE, rounds=1, branches=2)
    assert result.status == "verified"
    assert result.document["kernel"]["sha256"] == result.state.attempts[1].sha256
    assert [b["kept"] for b in result.document["branches"]] == [False, False]
    assert result.state.ended["r1b2"].reason == "not_applicable"
    second = result.document["branches"][1]
    assert second["attempts"] == []
    assert second["reason"] == "does not apply: a tenth block would change nothing"


@pytest.mark.slow
def test_a_budget_that_ends_within_a_round_leaves_the_best_kernel(tmp_path: Path) -> None:
    answers = {"r1b1": [reply(WRONG)], "r1b2": [reply(TWICE)]}
    result = run(tmp_path, answers, rounds=3, branches=2, max_calls=5)
    assert result.status == "verified"
    assert result.stop["reason"] == "budget"
    assert result.document["usage"]["calls"] == 5


@pytest.mark.slow
def test_a_branch_that_was_cut_off_goes_on_behind_its_last_attempt(tmp_path: Path) -> None:
    author = ByPrompt(reply(WASTEFUL), {"r1b1": [reply(WRONG), reply(TWICE)], "r1b2": [reply(ONCE)]})
    given: dict[str, Any] = {
        "models": {"coder": author},
        "model": "offline",
        "executor": "cpu",
        "settings": Settings(),
    }
    limits = Budget(branch_repairs=1, rounds=1, branches=2, max_calls=5)
    cut = generate("twice x", ir=IR, out=tmp_path, seed=5, budget=limits, **given)
    assert cut.stop["reason"] == "budget"
    before = {p.name: p.stat().st_mtime_ns for p in (cut.run_dir / "replies").iterdir()}
    verdict = (cut.run_dir / "attempts/002/verdict.json").stat().st_mtime_ns

    more = make_context(budget=limits.model_copy(update={"max_calls": 6}), **given)
    done = resume(cut.run_dir, context=more)
    assert [(a["id"], a["status"]) for a in done.document["attempts"]] == [
        (1, "verified"), (2, "rejected"), (3, "verified"), (5, "verified"),
    ]  # fmt: skip
    assert done.document["usage"]["calls"] == 6
    assert [b["attempts"] for b in done.document["branches"]] == [[2, 3], [5]]
    assert done.stop == {"reason": "budget", "detail": "1 of 1 rounds are done"}
    after = {p.name: p.stat().st_mtime_ns for p in (cut.run_dir / "replies").iterdir()}
    assert {name: after[name] for name in before} == before, "a finished call was made again"
    assert (cut.run_dir / "attempts/002/verdict.json").stat().st_mtime_ns == verdict, "judged again"


def test_no_round_follows_where_time_is_not_measured_and_none_was_asked_for(tmp_path: Path) -> None:
    result = run(tmp_path, {}, first=ONCE)
    assert result.stop["reason"] == "verified"
    assert result.document["branches"] == []
