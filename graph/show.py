"""Documents as plain lines for the terminal; text of others is stripped of control characters."""

import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cuda_harness.state.results import Verdict
    from cuda_harness.tools.toolchain.doctor import Finding

_MARKS = {"passed": "ok  ", "failed": "FAIL", "not_measured": "-   "}


def plain(text: object, limit: int = 2_000) -> str:
    """Return `text` without control characters, so that it cannot drive the terminal."""
    shown = "".join(c if c.isprintable() or c == "\n" else "?" for c in str(text))
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."


def verdict_lines(verdict: "Verdict") -> list[str]:
    """Return the ladder, stage by stage, and the failure."""
    lines = [
        f"{verdict.outcome} on {verdict.executor}" + (f" for {verdict.target}" if verdict.target else "")
    ]
    for stage in verdict.stages:
        scaled = f"  (scaled: {stage.scaled})" if stage.scaled else ""
        lines.append(
            f"  {_MARKS[stage.status]} {stage.name:<14} {stage.seconds:6.2f} s  {plain(stage.detail, 160)}{scaled}"
        )
    if verdict.failure is not None:
        lines.append(f"  {verdict.failure.class_}: {plain(verdict.failure.message)}")
        culprit = verdict.failure.evidence.get("culprit")
        if culprit is not None:
            lines.append(f"  -> mend {plain(culprit, 100)}; nothing is held against the kernel")
    lines.extend(f"  note: {plain(w, 200)}" for w in verdict.warnings)
    return lines


_GOES_ON = frozenset({"budget", "model_failed", "environment", "interrupted"})
"""Stops after which `resume` has something left to do."""


def document_lines(document: Mapping[str, Any]) -> list[str]:
    """Return a summary of a `result.json` for a person."""
    from cuda_harness.state.results import Verdict

    stop, usage = document["stop"], document["usage"]
    lines = [f"{document['status']}: {plain(document['request'], 200)}"]
    found = document.get("verdict")
    if found:
        lines.extend(verdict_lines(Verdict.model_validate(found)))
    if document["status"] != "verified" or stop["reason"] != "verified":
        lines.append(f"stopped: {stop['reason']}" + (f": {plain(stop['detail'])}" if stop["detail"] else ""))
    timing = document.get("timing")
    lines.append(
        f"time: {timing['median_us']:.1f} us on {timing['device']}"
        if timing
        else "time: not measured (no GPU was used)"
    )
    for assumption in document["assumptions"]:
        lines.append(
            f"assumed: {plain(assumption['what'], 80)} = {plain(assumption['value'], 80)} ({plain(assumption['why'], 120)})"
        )
    lines.append(
        f"attempts: {len(document['attempts'])}  model calls: {usage['calls']}  "
        f"tokens: {_or_unknown(usage['input_tokens'])} in, {_or_unknown(usage['output_tokens'])} out  seconds: {usage['seconds']:.1f}"
    )
    for row in document.get("branches") or []:
        mark = "kept" if row["kept"] else "-"
        lines.append(
            f"  {mark:<5}round {row['round']}  {plain(row['strategy'], 40)}: {plain(row['reason'], 300)}"
        )
    kernel = document.get("kernel")
    if kernel:
        lines.append(f"kernel: {kernel['path']}")
        lines.append(f"plan: {kernel['plan']}")
    elif document.get("attempt") is not None:
        lines.append(
            f"came furthest: {document['run_dir']}/attempts/{document['attempt']:03d}/kernel.cu, with its verdict.json"
        )
    lines.append(f"evidence: {document['run_dir']}")
    if stop["reason"] in _GOES_ON or (found and found["outcome"] == "undecided"):
        more = " --rounds MORE" if stop["detail"].endswith("rounds are done") else ""
        lines.append(f"go on with it: cuda-harness resume {shlex.quote(str(document['run_dir']))}{more}")
    return lines


def finding_lines(findings: "Iterable[Finding]") -> list[str]:
    """Return doctor's findings, a remedy below each fault."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.status:<8} {finding.name:<20} {plain(finding.detail, 200)}")
        if finding.remedy:
            lines.append(f"{'':<8} {'':<20} -> {plain(finding.remedy, 300)}")
    return lines


def trace_filter(*, role: str | None, attempt: int | None) -> Callable[[Mapping[str, Any]], bool]:
    """Return a filter of trace runs by node or role and by attempt."""

    def keep(run: Mapping[str, Any]) -> bool:
        extra = run.get("extra")
        metadata = extra.get("metadata") or {} if isinstance(extra, Mapping) else {}
        tags = run.get("tags") or []
        names = {run.get("name"), metadata.get("langgraph_node"), metadata.get("role"), *tags}
        if role is not None and role not in names:
            return False
        return attempt is None or metadata.get("attempt") == attempt or f"attempt:{attempt}" in tags

    return keep


def _or_unknown(value: int | None) -> str:
    return "unknown" if value is None else str(value)
