"""`report.html`: one file that a colleague opens anywhere, without a network and without a script."""

import base64
import hashlib
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from cuda_harness.graph.report import kernels, sections, times
from cuda_harness.graph.report.evidence import Evidence, read_evidence
from cuda_harness.graph.report.markup import el, fold, join
from cuda_harness.tools.archive.run_folder import write_atomically

FILE = "report.html"
Section = Callable[[Evidence], Markup | None]
SECTIONS: tuple[tuple[str, str, Section], ...] = (
    ("request", "Request and assumptions", sections.request),
    ("verdict", "Verdict", sections.verdict),
    ("time", "Time", times.timing_section),
    ("kernel", "Kernel", kernels.kernel_section),
    ("ir", "What is computed", kernels.ir_section),
    ("attempts", "Attempts", kernels.attempts_section),
    ("rounds", "Rounds of optimisation", kernels.rounds_section),
    ("spent", "Where the time went", times.where_time_went),
    ("budgets", "Budgets", sections.budgets),
    ("again", "Versions, and how to do it again", sections.reproduce),
)
"""Anchor, heading and maker of each section, in the order of the page."""


@cache
def style() -> Markup:
    """Return the style sheet; it is ours and holds no text of a run."""
    return Markup((files(__package__ or "") / "style.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file


def content_policy() -> str:
    """Return the content security policy: nothing is loaded, no script runs, only the page's own style applies."""
    digest = base64.b64encode(hashlib.sha256(style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def page(run: Evidence) -> str:
    """Return the whole report as HTML."""
    made = [(anchor, title, body) for anchor, title, make in SECTIONS if (body := make(run))]
    name = run.ir.name if run.ir else str(run.result.get("run_id") or "run")
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=content_policy()),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("meta", name="referrer", content="no-referrer"),
        el("title", f"{name}: {run.result.get('status')} - CUDA-Harness"),
        el("style", style()),
    )
    header = el(
        "header",
        el("h1", f"CUDA-Harness: {name}"),
        sections.headline(run),
        el("nav", [el("a", title, href=f"#{anchor}") for anchor, title, _ in made], aria_label="Sections"),
    )
    main = el("main", [el("section", el("h2", title), body, id=anchor) for anchor, title, body in made])
    footer = el("footer", el("p", f"Run {run.result.get('run_id')}", class_="soft"))
    body = el("body", header, main, footer, class_="ch")
    return f"<!DOCTYPE html>\n{el('html', head, body, lang='en')}\n"


def fragment(run: Evidence) -> str:
    """Return the notebook's view of a run: the same parts, the long ones folded."""
    shown = run.shown
    lineage = kernels.lineage_graph(run.attempts) if len(run.attempts) > 1 else None
    parts = [
        _folded("The run asks", sections.question(run), open_=True),
        _folded("Request and assumptions", sections.request(run)),
        _folded("Verdict", sections.verdict(run), open_=True),
        _folded("Time", times.timing_section(run), open_=run.timing is not None),
        _folded(f"Kernel (attempt {shown.id})" if shown else "Kernel", kernels.kernel_section(run)),
        _folded("What is computed", kernels.ir_section(run)),
        _folded("Attempts", lineage, open_=True),
    ]
    folder = el("p", "Evidence: ", el("code", str(run.folder.root)), class_="soft wrap")
    return str(el("div", el("style", style()), sections.headline(run), parts, folder, class_="ch cell"))


def _folded(title: str, body: Markup | None, *, open_: bool = False) -> Markup | None:
    return fold(title, join(body), open_=open_) if body else None


def write_report(run_dir: Path, out: Path | None = None) -> Path:
    """Write the report of the run in `run_dir` to `out` (default: `report.html` in it) and return its path.

    Raises:
        ConfigError: If there is no finished run, or the file cannot be written; the user acts.
    """
    run = read_evidence(run_dir)
    path = out if out is not None else run.folder.path(FILE)
    write_atomically(path, page(run).encode("utf-8"))
    return path
