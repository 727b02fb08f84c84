"""Judges the whole corpus: honest bundles must be accepted, wrong ones rejected for the right reason.

`python -m tests.adversarial --kind honest --seeds 20` · `--kind wrong` · `--executor cuda:0` · `--out results.jsonl` · `--workers 8`
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.adversarial.corpus import case, honest, library, without_sanitizer, wrong

from cuda_harness.state.results import Verdict
from cuda_harness.tools.execute.protocol import Executor
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.toolchain.nvrtc import Compiler
from cuda_harness.tools.verify.ladder import verify_bundle

FIRST_SEED = 40_507
_STEP = 7_919


def bundles(kind: str, *, on_gpu: bool) -> list[tuple[str, Path]]:
    """Return kind and folder of each bundle that can be judged on the executor."""
    found = []
    if kind in {"honest", "all"}:
        found += [("honest", f) for f in (*library(), *honest())]
    if kind in {"wrong", "all"}:
        found += [("wrong", f) for f in wrong() if on_gpu or not case(f)["gpu_only"]]
    return found


def is_right(kind: str, folder: Path, verdict: Verdict) -> bool:
    """Return whether a verdict is what the corpus expects."""
    if kind == "honest":
        return verdict.accepted
    expect, failure = case(folder)["expect"], verdict.failure
    return (
        verdict.outcome == "rejected"
        and failure is not None
        and failure.class_ in expect["class"]
        and failure.stage in expect["stage"]
    )


def judged(
    given: argparse.Namespace, executor: Executor, checker: Executor | None
) -> Iterator[dict[str, Any]]:
    """Yield one record for each bundle and seed, seed by seed."""
    compiler, references = Compiler(), ReferenceRunner()
    target = executor.device().arch or "sm_90a"
    every = [
        b
        for b in bundles(given.kind, on_gpu=executor.name != "cpu")
        if not given.only or b[1].name in given.only
    ]
    first, parts = (int(n) for n in given.shard.split("/"))
    every = every[first - 1 :: parts]
    try:
        for number in range(given.seeds):
            seed = given.first_seed + _STEP * number
            for kind, folder in every:
                began = time.monotonic()
                verdict = verify_bundle(
                    folder, executor=executor, compiler=compiler, target=target, seed=seed, max_seconds=180,
                    references=references, checker=checker,
                )  # fmt: skip
                failure = verdict.failure
                yield {
                    "name": folder.name, "kind": kind, "seed": seed, "outcome": verdict.outcome,
                    "right": is_right(kind, folder, verdict), "seconds": round(time.monotonic() - began, 2),
                    "stage": failure.stage if failure else None, "class": failure.class_ if failure else None,
                    "message": failure.message[:400] if failure else None,
                    "stages": {s.name: s.seconds for s in verdict.stages if s.seconds},
                    "not_measured": {s.name: s.detail for s in verdict.stages if s.status == "not_measured"} if verdict.accepted else {},
                }  # fmt: skip
    finally:
        compiler.close()
        references.close()


def main() -> int:
    """Judge, print what was judged wrongly, and return 1 when anything was."""
    parser = argparse.ArgumentParser(prog="python -m tests.adversarial", description=__doc__)
    parser.add_argument("--kind", choices=("honest", "wrong", "all"), default="all")
    parser.add_argument("--seeds", type=int, default=1, help="seeds for each bundle")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--executor", default="cpu", help="cpu or cuda:N")
    parser.add_argument("--only", nargs="*", default=(), help="names of bundles")
    parser.add_argument("--shard", default="1/1", help="K/N: every N-th bundle from the K-th on")
    parser.add_argument("--seconds", type=float, default=None, help="stop after this time")
    parser.add_argument("--out", type=Path, default=None, help="append one JSON line for each verdict")
    parser.add_argument(
        "--workers", type=int, default=1, help="processes side by side; on the CPU each has cores of its own"
    )
    parser.add_argument("--no-sanitizer", action="store_true", help="leave out the sanitizer stage of a GPU")
    given = parser.parse_args()
    if given.workers > 1:
        return side_by_side(given.workers, sys.argv[1:], own_cores=given.executor == "cpu")
    executor, checker = _executors(given.executor)
    if given.no_sanitizer:
        without_sanitizer(executor)
    began = time.monotonic()
    count = misjudged = 0
    try:
        for record in judged(given, executor, checker):
            count += 1
            misjudged += not record["right"]
            if given.out is not None:
                with given.out.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(record) + "\n")
            if not record["right"]:
                sys.stdout.write(
                    f"MISJUDGED {record['kind']} {record['name']} seed {record['seed']}: {record['outcome']} "
                    f"{record['stage']}/{record['class']}: {record['message']}\n"
                )
                sys.stdout.flush()
            if given.seconds is not None and time.monotonic() - began > given.seconds:
                sys.stdout.write("stopped: the time is over\n")
                break
    finally:
        executor.close()
        if checker is not None:
            checker.close()
    seconds = time.monotonic() - began
    sys.stdout.write(f"{count} verdicts on {executor.name}, {misjudged} misjudged, {seconds:.0f} s\n")
    return int(misjudged > 0)


def side_by_side(workers: int, arguments: list[str], *, own_cores: bool) -> int:
    """Judge the parts of the corpus in processes of their own; return 1 when any misjudged."""
    cores = sorted(os.sched_getaffinity(0))
    started = []
    for number in range(workers):
        part = [sys.executable, "-m", "tests.adversarial", *arguments, "--workers", "1", "--shard", f"{number + 1}/{workers}"]  # fmt: skip
        process = subprocess.Popen(part)
        if own_cores:
            os.sched_setaffinity(process.pid, set(cores[number::workers]) or set(cores))
        started.append(process)
    return max(process.wait() for process in started)


def _executors(name: str) -> tuple[Executor, Executor | None]:
    """Return the executor of that name, and a checker where it has no check mode of its own."""
    from cuda_harness.state.settings import Settings
    from cuda_harness.tools.execute.registry import executor as make

    executor = make(name, settings=Settings())
    return executor, None if "check" in executor.modes else make("cpu", settings=Settings())


if __name__ == "__main__":
    sys.exit(main())
