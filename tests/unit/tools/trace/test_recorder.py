import contextlib
import io
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


def test_runs_at_once_go_each_to_their_own_folder_and_are_forgotten(tmp_path: Path) -> None:
    recorder = TraceRecorder()
    for name in ("a", "b", "lost"):
        recorder.create_run(
            "graph", {}, "chain", id=name, trace_id=name, dotted_order=name, start_time="2026-01-01T00:00:00"
        )
        recorder.create_run(
            "node",
            {},
            "chain",
            id=name + "1",
            parent_run_id=name,
            dotted_order=name + ".1",
            start_time="2026-01-01T00:00:00",
        )
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        recorder.bind(name + "1", tmp_path / name, Redactor())
    assert recorder.open_roots == 3
    for name in ("a", "b", "lost"):
        recorder.update_run(name + "1", end_time="2026-01-01T00:00:01")
        recorder.update_run(name, end_time="2026-01-01T00:00:01")

    assert recorder.open_roots == 0
    assert not recorder.knows("a1")
    for name in ("a", "b"):
        assert [r["id"] for r in read_trace(tmp_path / name)] == [name, name + "1"]
        assert not (tmp_path / name / "trace.open.jsonl").exists()
    assert {p.name for p in tmp_path.iterdir()} == {"a", "b"}


def test_what_is_uploaded_is_cut_and_masked_like_the_file(tmp_path: Path) -> None:
    class Remote:
        def __init__(self) -> None:
            self.sent: list[Any] = []

        def create_run(self, **kwargs: Any) -> None:
            self.sent.append(kwargs)

        def update_run(self, _run_id: Any, **kwargs: Any) -> None:
            self.sent.append(kwargs)

        def flush(self) -> None:
            return

    remote: Any = Remote()
    recorder = TraceRecorder(tmp_path, redactor=Redactor(["hush"]), forward=remote)
    recorder.create_run(
        "ask", {"text": "hush " + "x" * 100_000}, "llm", id="1", trace_id="1", dotted_order="1", start_time="2026-01-01T00:00:00",
        extra={"metadata": {"role": "coder", "ordinal": 4}},
    )  # fmt: skip
    recorder.update_run("1", outputs={"text": "hush"}, end_time="2026-01-01T00:00:01")

    start, end = remote.sent
    assert "hush" not in str(remote.sent)
    assert len(start["inputs"]["text"]) < 30_000
    assert start["name"] == "ask"
    assert {"role:coder", "attempt:4"} <= set(end["tags"])
    assert end["extra"]["metadata"]["attempt"] == 4


def test_broken_lines_are_left_out_and_the_tree_shows_the_rest(tmp_path: Path) -> None:
    record(tmp_path, 1)
    with (tmp_path / "trace.jsonl").open("a") as stream:
        stream.write('{"half": \n[]\n')
    console = Console(record=True, width=120, file=(tmp_path / "out").open("w"))
    console.print(trace_tree(read_trace(tmp_path), title="run", keep=lambda r: r["name"] == "inner"))
    text = console.export_text()
    console.file.close()
    assert text.index("outer") < text.index("inner")


def test_a_node_shows_the_tokens_of_the_models_below_it() -> None:
    def run(name: str, parent: str | None, kind: str, usage: dict[str, int] | None = None) -> dict[str, Any]:
        outputs = {"usage_metadata": usage} if usage else {}
        return {
            "id": name,
            "parent_run_id": parent,
            "name": name,
            "run_type": kind,
            "outputs": outputs,
            "dotted_order": name,
        }

    runs = [
        run("graph", None, "chain"), run("coder", "graph", "chain"),
        run("ask", "coder", "llm", {"input_tokens": 30, "output_tokens": 9}),
        run("again", "coder", "llm", {"input_tokens": 5, "output_tokens": 1}), run("silent", "coder", "llm"),
        run("verifier", "graph", "chain"),
    ]  # fmt: skip
    lines = {
        line.split("\u2500 ")[-1].split()[0]: line
        for line in _printed(runs).splitlines()
        if "\u2500 " in line
    }
    assert "35 in / 10 out" in lines["coder"]
    assert "35 in / 10 out" in lines["graph"]
    assert "30 in / 9 out" in lines["ask"]
    assert " in / " not in lines["silent"] + lines["verifier"]


def _printed(runs: list[dict[str, Any]]) -> str:
    console = Console(width=120, file=io.StringIO())
    console.print(trace_tree(runs, title="run"))
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_a_hostile_trace_cannot_drive_the_terminal() -> None:
    shown = _printed(
        [{"id": "1", "name": "a\x1b[2Jb", "run_type": "chain\x07", "error": "\x1b]0;x\x07 [red]no[/red]"}]
    )
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "[red]no[/red]" in shown
