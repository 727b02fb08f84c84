"""Events of a run: a JSON line each with the ids, on stderr as well when a setting says so."""

import json
from pathlib import Path

import pytest
import structlog
from langsmith import traceable, tracing_context

from cuda_harness.state.settings import Settings
from cuda_harness.tools.trace.events import log_event
from cuda_harness.tools.trace.recorder import TraceRecorder, read_trace


def lines(run_dir: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (run_dir / "events.jsonl").read_text().splitlines()]


def test_an_event_carries_the_ids_of_its_run_and_trace(tmp_path: Path) -> None:
    @traceable(name="node")
    def node() -> None:
        log_event(tmp_path, "kernel_written", {"run_id": "r1", "attempt": 3}, settings=Settings())

    with (
        tracing_context(enabled=True, client=TraceRecorder(tmp_path)),
        structlog.contextvars.bound_contextvars(job="j"),
    ):
        node()

    (event,), (run,) = lines(tmp_path), read_trace(tmp_path)
    assert (event["event"], event["run_id"], event["attempt"], event["job"]) == (
        "kernel_written",
        "r1",
        3,
        "j",
    )
    assert (event["trace_id"], event["trace_run_id"]) == (run["trace_id"], run["id"])
    assert event["level"] == "info"
    assert str(event["timestamp"]).endswith("Z")


@pytest.mark.parametrize("form", ["file", "json", "console"])
def test_the_setting_says_what_stderr_gets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    settings = Settings.model_validate({"log": form, "redact": ("hush",)})
    log_event(tmp_path, "stage_finished", {"stage": "tiny", "detail": "a\x1b[31mred hush"}, settings=settings)

    shown = capsys.readouterr().err
    assert "hush" not in shown
    assert "\x1b" not in shown
    assert len(lines(tmp_path)) == 1
    if form == "file":
        assert not shown
    elif form == "json":
        assert json.loads(shown)["stage"] == "tiny"
    else:
        assert "stage_finished" in shown
        assert "stage=tiny" in shown


def test_a_folder_that_is_gone_loses_the_event_only(tmp_path: Path) -> None:
    log_event(tmp_path / "gone", "run_started", {}, settings=Settings())
    assert not (tmp_path / "gone").exists()
