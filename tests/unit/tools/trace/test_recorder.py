import contextlib
from pathlib import Path
from typing import Any

from langsmith import traceable, tracing_context
from rich.console import Console

from cuda_harness.tools.trace.recorder import FIELDS, TraceRecorder, close_interrupted, read_trace
from cuda_harness.tools.trace.redact import Redactor
from cuda_harness.tools.trace.tree import seconds, tokens, trace_tree


@traceable(run_type="tool", name="inner")
def inner(x: int) -> int:
    if x < 0:
        msg = "negative sk-abcdefghijklmnopqrstuvwx"
        raise ValueError(msg)
    return x + 1


@traceable(name="outer")
def outer(x: int) -> int:
    return inner(x)


def record(run_dir: Path, x: int, forward: Any = None) -> TraceRecorder:
    recorder = TraceRecorder(run_dir, redactor=Redactor(), forward=forward)
    with tracing_context(enabled=True, client=recorder), contextlib.suppress(ValueError):
        outer(x)
    return recorder


def test_finished_runs_are_lines_in_the_schema(tmp_path: Path) -> None:
    record(tmp_path, 1)
    parent, child = read_trace(tmp_path)
    assert set(parent) == set(FIELDS)
    assert (parent["name"], child["name"], child["run_type"]) == ("outer", "inner", "tool")
    assert child["parent_run_id"] == parent["id"]
    assert child["trace_id"] == parent["trace_id"]
    assert child["dotted_order"].startswith(parent["dotted_order"] + ".")
    assert child["outputs"] == {"output": 2}
    assert seconds(child) is not None
    assert tokens(child) == (None, None)


def test_errors_are_kept_and_redacted(tmp_path: Path) -> None:
    record(tmp_path, -1)
    for run in read_trace(tmp_path):
        assert "negative" in run["error"]
        assert "sk-abc" not in run["error"]


def test_runs_cut_off_by_a_kill_are_closed_once(tmp_path: Path) -> None:
    recorder = TraceRecorder(tmp_path, redactor=Redactor())
    recorder.create_run(
        "node", {}, "chain", id="1", trace_id="1", dotted_order="a", start_time="2026-01-01T00:00:00"
    )
    assert read_trace(tmp_path) == []
    assert close_interrupted(tmp_path) == 1
    assert close_interrupted(tmp_path) == 0
    (run,) = read_trace(tmp_path)
    assert run["error"].startswith("interrupted")
    assert run["end_time"]


def test_a_failing_upload_never_touches_the_run(tmp_path: Path) -> None:
    class Broken:
        def create_run(self, *_args: Any, **_kwargs: Any) -> None:
            raise OSError

        update_run = create_run

        def flush(self) -> None:
            raise OSError

    recorder = record(tmp_path, 1, Broken())
    recorder.finish()
    assert recorder.forward_failures == 4
    assert len(read_trace(tmp_path)) == 2


def test_broken_lines_are_left_out_and_the_tree_shows_the_rest(tmp_path: Path) -> None:
    record(tmp_path, 1)
    with (tmp_path / "trace.jsonl").open("a") as stream:
        stream.write('{"half": \n[]\n')
    console = Console(record=True, width=120, file=(tmp_path / "out").open("w"))
    console.print(trace_tree(read_trace(tmp_path), title="run", keep=lambda r: r["name"] == "inner"))
    text = console.export_text()
    console.file.close()
    assert text.index("outer") < text.index("inner")
