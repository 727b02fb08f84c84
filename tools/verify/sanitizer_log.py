"""What compute-sanitizer wrote, as typed findings; the text is a tool's output, never run, never a template."""

import re
from dataclasses import dataclass
from typing import Literal

from cuda_harness.state.results import CandidateFault

Tool = Literal["memcheck", "racecheck", "initcheck", "synccheck"]
TOOLS: tuple[Tool, ...] = ("memcheck", "racecheck", "initcheck", "synccheck")
_FRAME = re.compile(
    r"\bat (?:0x[0-9a-f]+ in )?(?P<kernel>[A-Za-z_$][\w$:<>~]*)(?:\([^\n]*?\))?(?:\+0x[0-9a-f]+)?"
    r"(?: in (?P<file>[^\n]*?):(?P<line>\d+))?(?:\s|$)"
)
_THREAD = re.compile(r"by thread \((\d+),(\d+),(\d+)\) in block \((\d+),(\d+),(\d+)\)")
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)")
_CLASSES: tuple[tuple[str, CandidateFault], ...] = (
    ("misaligned", "misaligned"),
    ("uninitialized", "uninitialized_read"),
    ("race reported", "data_race"),
    ("hazard detected", "data_race"),
    ("barrier error", "barrier_divergence"),
    ("divergent thread", "barrier_divergence"),
    ("invalid arguments", "barrier_divergence"),
    ("missing wait", "barrier_divergence"),
    ("invalid __", "out_of_bounds"),
    ("invalid ", "out_of_bounds"),
    ("out of bounds", "out_of_bounds"),
)


@dataclass(frozen=True)
class SanitizerFinding:
    """One complaint about device code."""

    tool: Tool
    class_: CandidateFault
    is_warning: bool
    message: str
    kernel: str | None = None
    line: int | None = None
    """Of kernel.cu."""
    block: tuple[int, int, int] | None = None
    thread: tuple[int, int, int] | None = None


@dataclass(frozen=True)
class SanitizerReport:
    """What one tool found; `summary` is `None` where it did not get to its end."""

    findings: tuple[SanitizerFinding, ...]
    summary: int | None


def parse_log(tool: Tool, text: str) -> SanitizerReport:
    """Return the findings of one tool's log, in order; complaints without a device frame are left out."""
    totals = [int(n) for n in _SUMMARY.findall(text)]
    found = []
    for block in _blocks(text):
        finding = _finding(tool, block)
        if finding is not None:
            found.append(finding)
    return SanitizerReport(tuple(found), totals[-1] if totals else None)


def _blocks(text: str) -> list[str]:
    """Return the paragraphs of a log: a head line and its indented lines."""
    blocks: list[list[str]] = []
    for line in text.splitlines():
        if not line.startswith("========="):
            continue
        body = line.removeprefix("=========")
        if body.strip() and not body.startswith("     "):
            blocks.append([body.strip()])
        elif body.strip() and blocks:
            blocks[-1].append(body.strip())
    return ["\n".join(b) for b in blocks]


def _finding(tool: Tool, block: str) -> SanitizerFinding | None:
    head = block.split("\n", 1)[0]
    lowered = block.lower()
    class_ = next((c for words, c in _CLASSES if words in lowered), None)
    frame = next((m for m in _FRAME.finditer(block) if m.group("line") or "+0x" in m.group(0)), None)
    if class_ is None or frame is None or "SUMMARY" in head:
        return None
    own = bool(frame.group("file")) and frame.group("file").endswith("kernel.cu")
    line = int(frame.group("line")) if own else None
    at = _THREAD.search(block)
    numbers = tuple(int(n) for n in at.groups()) if at else ()
    return SanitizerFinding(
        tool=tool, class_=class_, is_warning=head.lower().startswith("warning"), message=_sentence(tool, block, line),
        kernel=frame.group("kernel").split("(")[0], line=line,
        thread=(numbers[0], numbers[1], numbers[2]) if numbers else None,
        block=(numbers[3], numbers[4], numbers[5]) if numbers else None,
    )  # fmt: skip


def _sentence(tool: Tool, block: str, line: int | None) -> str:
    """Return the complaint in one sentence without addresses and without folders of this machine."""
    lines = [re.sub(r"\s+in \S*?([^/\s]+:\d+)", r" in \1", part) for part in block.split("\n")]
    kept = [p for p in lines[:6] if not re.match(r"(?:Saved host|Host Frame|Device Frame|=)", p)]
    text = "; ".join(kept)
    text = re.sub(r"Access (?:to|at) 0x[0-9a-f]+", "access", text)
    text = re.sub(r"; Address 0x[0-9a-f]+(?=;|$)", "", text)
    text = re.sub(r"(?:\+| at | )?0x[0-9a-f]+", "", text)
    text = re.sub(r"^(?:Error|Warning|ERROR|WARNING): ", "", re.sub(r"\s+", " ", text))
    where = f"line {line}: " if line else ""
    return f"{where}{tool}: {text}"[:600]
