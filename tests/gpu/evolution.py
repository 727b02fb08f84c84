"""Ten requests of different families through the whole search on a GPU, with the built-in templates.

`python -m tests.gpu.evolution OUT [SECONDS] [--executor NAME] [--workers N] [--rounds N] [NAME ...]`: OUT/evolution.json and .md. Each
request is a process of its own, one at a time for each GPU: timing holds it alone.
"""

import argparse
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cuda_harness import generate
from cuda_harness.state.budget import Budget
from cuda_harness.state.lineage import base_of
from cuda_harness.state.settings import Settings
from cuda_harness.tools.execute.cuda.devices import list_visible

REQUESTS = {
    "softmax": "softmax of each row of a float32 matrix, 16384 x 1024",
    "layer_norm": "layer norm over each row of a float32 matrix, 4096 x 4096",
    "row_sum": "sum of each row of a float32 matrix, 8192 x 4096",
    "column_sum": "sum of each column of a float32 matrix, 8192 x 4096",
    "total": "sum of 2^25 floats",
    "matmul": "matmul of 2048 x 2048 matrices",
    "matvec": "matrix vector product, 8192 x 4096",
    "scan": "prefix sum of 2^24 floats",
    "transpose": "transpose a 4096 x 4096 matrix of floats",
    "relu": "relu of 2^24 floats",
}
BESIDE = frozenset({"softmax"})
"""Requests whose best kernel is set beside PyTorch's, which takes a minute."""
ROUNDS = 2
_ONE_S = 150.0
"""Seconds one search may take: it ends with what it has, and the others get their turn."""


def search(
    name: str, out: Path, *, seconds: float, executor: str = "cuda", rounds: int = ROUNDS
) -> dict[str, Any]:
    """Return first and best kernel of one request, and what the search took."""
    began = time.monotonic()
    result = generate(
        REQUESTS[name], model="offline", executor=executor, out=out / "runs", seed=11,
        settings=Settings(ladder_seconds=120, libraries=name in BESIDE), budget=Budget(rounds=rounds, branches=2, max_seconds=seconds),
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
        "libraries": (result.document["timing"] or {}).get("libraries", []),
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


def in_a_process(name: str, given: argparse.Namespace, until: float) -> dict[str, Any] | None:
    """Return what the search of one request found, `None` where the time was over or it ended badly; its log stays."""
    left = min(until - time.monotonic(), _ONE_S)
    if left < 20:
        return None
    with (given.out / f"evolution-{name}.log").open("wb") as log:
        run = subprocess.run(
            [sys.executable, "-m", "tests.gpu.evolution", str(given.out), str(left - 5), "--executor", given.executor,
             "--rounds", str(given.rounds), "--one", name],
            stdout=subprocess.PIPE, stderr=log, timeout=left + 30, check=False,
        )  # fmt: skip
        log.write(run.stdout)
    lines = run.stdout.decode(errors="replace").splitlines()
    found: dict[str, Any] | None = json.loads(lines[-1]) if run.returncode == 0 and lines else None
    return found


def main() -> None:
    """Search for all requests until the time is over; writes after each, so that nothing measured is lost."""
    parser = argparse.ArgumentParser(prog="tests.gpu.evolution")
    parser.add_argument("out", type=Path)
    parser.add_argument("seconds", type=float, nargs="?", default=540.0)
    parser.add_argument("names", nargs="*", help="requests; none: all")
    parser.add_argument("--executor", default="cuda:auto")
    parser.add_argument(
        "--workers",
        type=int,
        help="searches at a time; by default one for each GPU, whose measurements queue",
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--one", choices=tuple(REQUESTS), help="search for this request in this process")
    given = parser.parse_intermixed_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.one:
        print(
            json.dumps(
                search(
                    given.one, given.out, seconds=given.seconds, executor=given.executor, rounds=given.rounds
                )
            )
        )
        return
    until, rows = time.monotonic() + given.seconds, []
    with ThreadPoolExecutor(given.workers or (len(list_visible()) if given.executor != "cpu" else 1)) as pool:
        for name, row in zip(given.names or REQUESTS, pool.map(lambda n: in_a_process(n, given, until), given.names or REQUESTS), strict=True):  # fmt: skip
            if row is None:
                print(f"{name}: not run to its end, see evolution-{name}.log", flush=True)
                continue
            rows.append(row)
            print(json.dumps({k: v for k, v in row.items() if k != "branches"}), flush=True)
            (given.out / "evolution.json").write_text(json.dumps(rows, indent=1))
            (given.out / "evolution.md").write_text(table(rows))


if __name__ == "__main__":
    main()
