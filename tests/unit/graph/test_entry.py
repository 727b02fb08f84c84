"""One entry of a suite: when its run goes on, and what a run without a kernel means."""

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from cuda_harness.agents.ask import ask
from cuda_harness.agents.context import RunContext
from cuda_harness.agents.llm.errors import provider_error
from cuda_harness.graph import runner
from cuda_harness.graph.entry import gone_on, spec_for, status_of
from cuda_harness.state.budget import Budget
from cuda_harness.state.errors import ConfigError
from cuda_harness.state.settings import Settings

CONTEXT = RunContext(settings=Settings(budget=Budget(max_seconds=100.0)))


def cut_off_run(home: Path, name: str, *, elapsed_s: float = 40.0, request: str = "sum of rows") -> Path:
    """Lay out what a killed run leaves behind."""
    run = home / name
    (run / "replies").mkdir(parents=True)
    (run / "manifest.json").write_text("{}")
    (run / "request.txt").write_text(request)
    (run / "replies" / "planner-main-0-0.json").write_text(
        json.dumps({"model": "m", "reply": "x", "elapsed_s": elapsed_s})
    )
    return run


def test_the_newest_run_goes_on_with_its_seconds_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off_run(tmp_path, "20260101-000000-a")
    newest = cut_off_run(tmp_path, "20260101-000001-b")
    seen: list[Any] = []
    monkeypatch.setattr(runner, "resume", lambda run, *, context: seen.append((run, context)) or "result")
    assert gone_on(tmp_path, "sum of rows", CONTEXT) == "result"  # type: ignore[comparison-overlap]
    ((run, context),) = seen
    assert run == newest
    assert context.effective.budget.max_seconds == 140.0


def test_all_that_a_session_spent_is_added_when_it_came_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = cut_off_run(tmp_path, "20260101-000000-a")
    (run / "result.json").write_text(json.dumps({"usage": {"seconds": 90.0, "gpu_seconds": 7.0}}))
    seen: list[Budget] = []
    monkeypatch.setattr(runner, "resume", lambda _, *, context: seen.append(context.effective.budget))
    limits = Budget(max_seconds=100.0, max_gpu_seconds=5.0)
    gone_on(tmp_path, "sum of rows", RunContext(settings=Settings(budget=limits)))
    assert (seen[0].max_seconds, seen[0].max_gpu_seconds) == (190.0, 12.0)


def test_another_request_or_a_damaged_run_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_run: Path, *, context: RunContext) -> None:
        msg = "the toolchain differs"
        raise ConfigError(msg)

    monkeypatch.setattr(runner, "resume", refuse)
    assert gone_on(tmp_path / "none", "sum of rows", CONTEXT) is None
    run = cut_off_run(tmp_path, "20260101-000000-a")
    assert gone_on(tmp_path, "sum of columns", CONTEXT) is None
    assert gone_on(tmp_path, "sum of rows", CONTEXT) is None
    (run / "replies" / "planner-main-0-0.json").write_text("{")
    assert gone_on(tmp_path, "sum of rows", CONTEXT) is None


@pytest.mark.parametrize(
    ("reason", "detail", "status"),
    [
        ("refused", "the model declined", "refused"),
        ("environment", "no g++", "not_run"),
        ("no_correct_kernel", "the correctness budget is spent", "failed"),
        ("model_failed", "the endpoint failed (503): busy", "unavailable"),
        ("model_failed", "the coder's reply stayed unusable after a repair turn: no block", "model_failed"),
        ("model_failed", "the prompt does not fit model 'm': too long", "model_failed"),
    ],
)
def test_a_run_without_a_kernel_is_the_models_failure_only_when_it_answered(
    reason: str, detail: str, status: str
) -> None:
    assert status_of(reason, detail) == status


def test_a_spec_names_a_recording_for_each_entry(tmp_path: Path) -> None:
    assert spec_for(f"replay:{tmp_path}", "0001-1-1") == f"replay:{tmp_path}/0001-1-1.jsonl"


def test_the_words_of_failures_are_those_that_are_really_said() -> None:
    class TooLargeError(Exception):
        status_code = 413

    class BusyError(Exception):
        status_code = 503

    assert status_of("model_failed", str(provider_error(TooLargeError("long"), model="m"))) == "model_failed"
    assert status_of("model_failed", str(provider_error(BusyError("busy"), model="m"))) == "unavailable"
    assert "stayed unusable after a repair turn" in inspect.getsource(ask)
