"""The view that updates in place: what it tells, how often, and where it shows at all."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from cuda_harness.graph.live import NotebookProgress, RunView, watching
from cuda_harness.graph.progress import Progress
from cuda_harness.state.budget import Budget

EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("run_started", {"request": "r"}),
    ("model_called", {"role": "coder"}),
    ("model_replied", {"role": "coder", "input_tokens": 100, "output_tokens": 20}),
    ("kernel_written", {"attempt": 1, "strategy": "first"}),
    ("stage_finished", {"attempt": 1, "stage": "parse", "status": "passed"}),
    ("stage_finished", {"attempt": 1, "stage": "compile", "status": "failed"}),
]


def told(*events: tuple[str, dict[str, Any]], budget: Budget | None = None) -> RunView:
    view = RunView(budget)
    for event, fields in events:
        view.note(event, fields)
    return view


def test_the_view_follows_the_events() -> None:
    view = told(*EVENTS, budget=Budget(max_calls=9))
    facts = dict(view.facts())

    assert view.doing == "judging attempt 1: compile"
    assert view.rungs == {"parse": "passed", "compile": "failed"}
    assert facts["attempt"] == "1 first"
    assert facts["calls"] == "1 of 9"
    assert facts["tokens"] == "120"
    assert facts["best time"] == "not measured"
    assert "\u2717 compile" in view._repr_html_()
    assert "attempt: 1 first" in repr(view)


def test_a_new_kernel_starts_a_new_ladder_and_the_best_time_stays_the_best() -> None:
    view = told(
        *EVENTS,
        ("kernel_profiled", {"attempt": 1, "median_us": 12.5}),
        ("kernel_judged", {"outcome": "accepted"}),
        ("kernel_written", {"attempt": 2, "strategy": "tile"}),
        ("kernel_profiled", {"attempt": 2, "median_us": 20.0}),
    )
    assert view.rungs == {}
    assert dict(view.facts())["best time"] == "12.5 \u00b5s"
    assert dict(view.facts())["verified"] == "1"


def test_tokens_once_unknown_stay_unknown() -> None:
    view = told(("model_replied", {"input_tokens": None, "output_tokens": 3}), *EVENTS)
    assert dict(view.facts())["tokens"] == "unknown"


def test_markup_in_an_event_stays_text() -> None:
    shown = told(("model_called", {"role": "<script>alert(1)</script>"}))._repr_html_()
    assert "<script" not in shown
    assert "&lt;script&gt;" in shown


class Screen:
    """A display handle that counts its updates."""

    def __init__(self, *, broken: bool = False) -> None:
        self.updates = 0
        self.broken = broken

    def update(self, obj: object, /) -> None:
        self.updates += 1
        if self.broken:
            raise RuntimeError


def test_the_display_is_updated_a_few_times_a_second_and_at_the_end() -> None:
    screen = Screen()
    listener = NotebookProgress(screen, RunView())
    for event, fields in EVENTS * 50:
        listener(event, fields)
    assert screen.updates <= 3
    before = screen.updates
    listener("run_finished", {"status": "verified"})
    assert screen.updates == before + 1


def test_a_broken_display_never_disturbs_the_run() -> None:
    screen = Screen(broken=True)
    NotebookProgress(screen, RunView())("run_finished", {"status": "failed"})
    assert screen.updates == 1


def test_a_script_is_left_alone_and_can_ask_for_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    with watching(Budget(), wanted=None) as listener:
        assert listener is None
    with watching(Budget(), wanted=True) as listener:
        assert isinstance(listener, Progress)


def ipython(monkeypatch: pytest.MonkeyPatch, shell: object, handle: object = None) -> None:
    module: Any = ModuleType("IPython")
    module.get_ipython = lambda: shell
    shown: Any = ModuleType("IPython.display")
    shown.display = lambda _obj, display_id: handle
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", shown)


def test_a_notebook_gets_the_view_and_a_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    ipython(monkeypatch, SimpleNamespace(kernel=object()), Screen())
    with watching(Budget(), wanted=None) as listener:
        assert isinstance(listener, NotebookProgress)
    with watching(Budget(), wanted=False) as listener:
        assert listener is None
    ipython(monkeypatch, SimpleNamespace())
    with watching(Budget(), wanted=None) as listener:
        assert isinstance(listener, Progress)
    ipython(monkeypatch, SimpleNamespace(kernel=object()), None)  # a kernel without a rich display
    with watching(Budget(), wanted=None) as listener:
        assert isinstance(listener, Progress)
