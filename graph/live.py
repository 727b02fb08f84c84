"""One small view of a running job that updates in place: what a notebook shows while `generate` works."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from cuda_harness.graph.progress import Progress
from cuda_harness.graph.report.drawing import quantity
from cuda_harness.graph.report.markup import el
from cuda_harness.state.budget import Budget
from cuda_harness.state.results import STAGES

_REFRESH_S = 0.2
"""Least seconds between two updates of the display: a browser draws them all."""
_DOING = {
    "run_started": "reading the request", "request_planned": "writing references", "reference_written": "checking references",
    "references_agreed": "proving the test suite", "suite_proved": "writing a kernel", "kernel_written": "judging",
    "kernel_judged": "choosing what comes next", "kernel_profiled": "choosing what comes next",
    "next_chosen": "finishing", "run_stopping": "stopping",
}  # fmt: skip
_MARKS = {"passed": ("\u2713", "good"), "failed": ("\u2717", "bad"), "not_measured": ("\u2013", "mute")}


class RunView:
    """Where a run stands, told by its events; it shows itself as HTML and as one plain line."""

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        self.began = time.monotonic()
        self.seconds: float | None = None
        self.doing = "starting"
        self.status = ""
        self.attempt: int | None = None
        self.strategy = ""
        self._ladders: dict[object, dict[str, str]] = {}
        self._strategies: dict[object, str] = {}
        self.verified = 0
        self.best_us: float | None = None
        self.calls = 0
        self.tokens: int | None = 0
        """Tokens so far, `None` once a reply came without a count."""

    @property
    def rungs(self) -> dict[str, str]:
        """Stages of the attempt that moved last, by name; attempts of a round run at once."""
        return self._ladders.get(self.attempt, {})

    def note(self, event: str, fields: Mapping[str, Any]) -> None:
        """Take in one event; unknown ones change nothing."""
        self.doing = _DOING.get(event, self.doing)
        if event == "model_called":
            self.doing = f"asking the {fields.get('role')}"
        elif event == "model_replied":
            self.calls += 1
            counts = (fields.get("input_tokens"), fields.get("output_tokens"))
            known = [c for c in counts if isinstance(c, int)]
            self.tokens = (
                None if self.tokens is None or len(known) < len(counts) else self.tokens + sum(known)
            )
        elif event == "kernel_written":
            self.attempt, self.strategy = fields.get("attempt"), str(fields.get("strategy") or "")
            self._strategies[self.attempt] = self.strategy
        elif event == "stage_finished":
            self.attempt = fields.get("attempt")
            self.strategy = self._strategies.get(self.attempt, "")
            self._ladders.setdefault(self.attempt, {})[str(fields.get("stage"))] = str(fields.get("status"))
            self.doing = f"judging attempt {self.attempt}: {fields.get('stage')}"
        elif event == "kernel_judged":
            self.verified += fields.get("outcome") == "accepted"
        elif event == "kernel_profiled" and isinstance(fields.get("median_us"), (int, float)):
            self.best_us = min(self.best_us or float("inf"), float(fields["median_us"]))
        elif event == "run_finished":
            self.status, self.doing = str(fields.get("status")), "done"
            self.seconds = time.monotonic() - self.began

    def facts(self) -> list[tuple[str, str]]:
        """Return what stands in the view, by name."""
        seconds = self.seconds if self.seconds is not None else time.monotonic() - self.began
        limits = self.budget
        return [
            ("attempt", f"{self.attempt} {self.strategy}" if self.attempt is not None else "none yet"),
            ("verified", str(self.verified)),
            (
                "best time",
                f"{quantity(self.best_us)} \u00b5s" if self.best_us is not None else "not measured",
            ),
            ("calls", _of(str(self.calls), limits.max_calls)),
            ("tokens", _of("unknown" if self.tokens is None else f"{self.tokens:,}", limits.max_tokens)),
            ("seconds", _of(f"{seconds:.0f}", limits.max_seconds)),
        ]

    def _repr_html_(self) -> str:
        from cuda_harness.graph.report.page import style

        rungs = [
            el(
                "span",
                f"{_MARKS[status][0]} {name} ",
                class_=_MARKS[status][1],
                title=status.replace("_", " "),
            )
            for name in STAGES
            if (status := self.rungs.get(name, "")) in _MARKS
        ]
        tiles = [el("div", el("b", value), el("span", name), class_="tile") for name, value in self.facts()]
        head = el("div", el("b", self.status or self.doing), class_="status")
        return str(el("div", el("style", style()), head, el("p", rungs) if rungs else None,
                      el("div", tiles, class_="tiles"), class_="ch cell"))  # fmt: skip

    def __repr__(self) -> str:
        return f"{self.status or self.doing}  " + "  ".join(
            f"{name}: {value}" for name, value in self.facts()
        )


def _of(spent: str, limit: float | None) -> str:
    return spent if limit is None else f"{spent} of {limit:g}"


class Handle(Protocol):
    """What IPython's `display(..., display_id=True)` returns."""

    def update(self, obj: Any, /) -> None:  # noqa: ANN401 - anything that shows itself
        """Show `obj` in place of what was shown."""


class NotebookProgress:
    """A listener that keeps one display up to date, a few times a second and once at the end."""

    def __init__(self, handle: Handle, view: RunView) -> None:
        self._handle = handle
        self._view = view
        self._shown = 0.0
        self._lock = threading.Lock()

    def __call__(self, event: str, fields: Mapping[str, Any]) -> None:
        """Take in one event; a display that fails never disturbs the run."""
        with self._lock:
            self._view.note(event, fields)
            now = time.monotonic()
            if event != "run_finished" and now - self._shown < _REFRESH_S:
                return
            self._shown = now
            with contextlib.suppress(Exception):
                self._handle.update(self._view)


@contextlib.contextmanager
def watching(budget: Budget, *, wanted: bool | None) -> Iterator["NotebookProgress | Progress | None"]:
    """Lend a listener that shows a run where it is called from.

    A notebook gets one updating view, an interactive IPython plain lines; a script gets nothing unless `wanted`
    is true, and nobody gets anything when it is false.
    """
    shell = _ipython()
    if wanted is False or (wanted is None and shell is None):
        yield None
        return
    if shell is not None and hasattr(shell, "kernel"):
        from IPython.display import display

        view = RunView(budget)
        handle = display(view, display_id=True)  # type: ignore[no-untyped-call]
        if handle is not None:
            yield NotebookProgress(handle, view)
            return
    progress = Progress()
    with progress.live():
        yield progress


def _ipython() -> Any:  # noqa: ANN401 - IPython's shell, `None` outside it; IPython is never imported for asking
    module = sys.modules.get("IPython")
    return module.get_ipython() if module is not None else None
