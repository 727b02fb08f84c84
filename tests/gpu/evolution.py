"""Ten requests of different families through the whole search on a GPU, with the built-in templates.

`python -m tests.gpu.evolution OUT [SECONDS] [NAME ...]`: OUT/evolution.json and .md.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from cuda_harness import generate
from cuda_harness.state.budget import Budget
from cuda_harness.state.lineage import base_of
from cuda_harness.state.settings import Settings

REQUESTS = {
    "relu": "relu of 2^25 floats",
    "axpy": "axpy of 2^25 floats",
    "softmax": "softmax of each row of a float32 matrix, 32768 x 1024",
    "layer_norm": "layer norm over each row of a float32 matrix, 8192 x 4096",
    "row_sum": "sum of each row of a float32 matrix, 8192 x 4096",
    "column_sum": "sum of each column of a float32 matrix, 8192 x 4096",
    "total": "sum of 2^25 floats",
    "transpose": "transpose an 8192 x 4096 matrix of floats",
    "scan": "prefix sum of 2^24 floats",
    "matmul": "matmul of 2048 x 2048 matrices",
}
ROUNDS = 3


def search(name: str, out: Path, *, seconds: float, executor: str = "cuda") -> dict[str, Any]:
    """Return first and best kernel of one request, and what the search took."""
    began = time.monotonic()
    result = generate(
        REQUESTS[name], model="offline", executor=executor, out=out / "runs", seed=11,
        settings=Settings(ladder_seconds=90), budget=Budget(rounds=ROUNDS, branches=2, max_seconds=seconds),
    )  # fmt: skip
    attempts = result.state.attempts
    verified = [a for _, a in sorted(attempts.items()) if a.status == "verified"]
    first, best = (verified[0] if verified else None), base_of(attempts, result.state.rounds)
    timing = result.timing
    first_us, best_us = (a.median_us if a is not None else None for a in (first, best))
    return {
        "name": name, "request": REQUESTS[name], "status": result.status, "stop": result.stop, "run": result.run_dir.name,
        "first_us": first_us, "best_us": best_us,
        "best_over_first": first_us / best_us if first_us and best_us else None,
        "sol_fraction": timing.sol_fraction if timing else None,
        "attempts": len(attempts), "verified": len(verified), "rounds": len(result.state.rounds),
        "branches": result.document["branches"], "calls": result.document["usage"]["calls"],
        "seconds": round(time.monotonic() - began, 1),
    }  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as Markdown."""

    def shown(value: float | None, form: str) -> str:
        return "not measured" if value is None else format(value, form)

    lines = ["| request | first us | best us | best/first | of light | attempts | s | stop |", "|---|---|---|---|---|---|---|---|"]  # fmt: skip
    lines += [
        f"| {r['name']} | {shown(r['first_us'], '.1f')} | {shown(r['best_us'], '.1f')} | {shown(r['best_over_first'], '.2f')} "
        f"| {shown(r['sol_fraction'], '.2f')} | {r['attempts']} | {r['seconds']} | {r['stop']['reason']} |"
        for r in rows
    ]
    known = [r["best_over_first"] for r in rows if r["best_over_first"]]
    lines.append(f"\n{sum(x >= 1.5 for x in known)} of {len(known)} at least 1.5 times the first; worst {min(known, default=0):.2f}")  # fmt: skip
    return "\n".join(lines) + "\n"


def main(out: Path, total: float, names: list[str], executor: str = "cuda") -> list[dict[str, Any]]:
    """Run the requests until the time is over; writes after each, so that nothing measured is lost."""
    out.mkdir(parents=True, exist_ok=True)
    began, rows = time.monotonic(), []
    for name in names or list(REQUESTS):
        left = total - (time.monotonic() - began)
        if left < 20:
            print(f"{name}: not run, the time was over")
            continue
        rows.append(search(name, out, seconds=min(120.0, left - 10), executor=executor))
        print(json.dumps({k: v for k, v in rows[-1].items() if k != "branches"}))
        (out / "evolution.json").write_text(json.dumps(rows, indent=1))
        (out / "evolution.md").write_text(table(rows))
    return rows


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 540.0, sys.argv[3:])
