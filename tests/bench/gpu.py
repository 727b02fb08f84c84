"""Figures of a GPU from a report that tests/gpu/run_all.sh left: nothing here measures, nothing is made up."""

import json
import os
import time
from pathlib import Path
from typing import Any

NAMES = (
    "gpu.candidate_s",
    "gpu.warm_candidate_s",
    "gpu.sanitizer_s",
    "gpu.a_a_win_rate",
    "gpu.stream_fraction",
)
Measured = tuple[float | None, str]
_HOW = "tests/gpu/run_all.sh build/gpu on a GPU machine, or GPU_REPORT=FOLDER, gives these"


def figures(root: Path) -> dict[str, Measured]:
    """Return every `gpu.*` figure; null with its reason where the report does not hold it."""
    folder = Path(os.environ.get("GPU_REPORT") or root / "build" / "gpu")
    if not folder.is_dir():
        return dict.fromkeys(NAMES, (None, f"no report of a GPU; {_HOW}"))
    overhead, timing = _read(folder / "overhead.json"), _read(folder / "timing.json")
    found = {**_overhead(overhead), **_self_test(timing), **_streams(timing)}
    return {n: found.get(n, (None, f"{folder.name} holds no such figure; {_HOW}")) for n in NAMES}


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {**found, "when": time.strftime("%Y-%m-%d", time.localtime(path.stat().st_mtime))}


def _overhead(report: dict[str, Any]) -> dict[str, Measured]:
    rows = [r for r in report.get("rows", []) if isinstance(r.get("cold"), dict)]
    if not rows:
        return {}
    note = f"slowest of {len(rows)} kernels of a million elements, {report['when']}"
    cold = [r["cold"]["total_s"] for r in rows if r["cold"].get("total_s")]
    warm = [w["total_s"] for r in rows for w in r.get("warm", []) if w.get("total_s")]
    sanitizer = [r["cold"]["sanitizer_s"] for r in rows if r["cold"].get("sanitizer_s")]
    values = {"gpu.candidate_s": cold, "gpu.warm_candidate_s": warm, "gpu.sanitizer_s": sanitizer}
    return {name: (max(v), note) for name, v in values.items() if v}


def _self_test(report: dict[str, Any]) -> dict[str, Measured]:
    parts = [
        v
        for n, v in report.items()
        if n.startswith("A against A") and isinstance(v, dict) and v.get("trials")
    ]
    if not parts:
        return {}
    trials, told = sum(p["trials"] for p in parts), sum(p["told_apart"] for p in parts)
    return {
        "gpu.a_a_win_rate": (
            told / trials,
            f"{told} of {trials} trials of two equal kernels, {report['when']}",
        )
    }


def _streams(report: dict[str, Any]) -> dict[str, Measured]:
    limits = report.get("ceilings", {})
    rows = [r for r in report.get("streams", []) if isinstance(r, dict) and r.get("timing", {}).get("gb_s")]
    if not rows or not limits.get("bandwidth_bytes_per_s"):
        return {}
    shares = {r["kernel"]: r["timing"]["gb_s"] * 1e9 / limits["bandwidth_bytes_per_s"] for r in rows}
    least = min(shares, key=lambda n: shares[n])
    note = f"least of {len(shares)} streaming kernels ({least}) against measured copy bandwidth, {report['when']}"
    return {"gpu.stream_fraction": (shares[least], note)}
