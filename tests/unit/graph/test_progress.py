"""Progress on a terminal and elsewhere: plain lines, no control sequences of others, no harm to the run."""

import io

from rich.console import Console

from cuda_harness.graph.progress import Progress, describe_event


def test_an_event_is_one_line_of_words() -> None:
    line = describe_event(
        "kernel_judged",
        {"attempt": 2, "outcome": "rejected", "message": "a\n b", "seconds": 1.234, "run_id": "r", "x": None},
    )
    assert line == "kernel judged  attempt=2  outcome=rejected  message=a b  seconds=1.23"


def test_plain_lines_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    progress = Progress(Console(file=stream, width=200, highlight=False))
    with progress.live():
        progress("model_called", {"role": "coder"})
        progress("kernel_written", {"attempt": 1, "detail": "[red]x[/red]"})
    lines = stream.getvalue().splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("kernel written  attempt=1  detail=[red]x[/red]")


def test_a_closed_stream_never_disturbs_the_run() -> None:
    stream = io.StringIO()
    progress = Progress(Console(file=stream))
    stream.close()
    progress("kernel_written", {"attempt": 1})
    assert stream.closed
