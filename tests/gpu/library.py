"""The kernel library on the GPU and on the CPU executor side by side: verdicts, and how far the outputs are apart.

`python -m tests.gpu.library OUT [SECONDS] [--sanitize] [--workers N] [--names REGEX]` writes OUT/library/NAME.json and
OUT/side_by_side.md; `--one NAME` judges one bundle in this process.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from tests.adversarial.corpus import without_sanitizer

from cuda_harness.state.suite import Case
from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.cuda.executor import CudaExecutor
from cuda_harness.tools.execute.protocol import Executor, Job, JobOk
from cuda_harness.tools.ir.program import PlanFault, expand
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.toolchain.nvrtc import Compiler
from cuda_harness.tools.toolchain.source import inspect
from cuda_harness.tools.verify.bundle import Bundle, load_bundle
from cuda_harness.tools.verify.climb import critical_sizes
from cuda_harness.tools.verify.ladder import verify_bundle

LIBRARY = Path(__file__).resolve().parents[2] / "examples" / "kernels"
_ONE_S = 150.0


def judged(folder: Path, executor: Executor, cpu: CpuExecutor, compiler: Compiler, references: ReferenceRunner, arch: str) -> dict[str, Any]:  # fmt: skip
    began = time.monotonic()
    verdict = verify_bundle(
        folder, executor=executor, compiler=compiler, target=arch, seed=7, max_seconds=60, references=references, checker=cpu
    )  # fmt: skip
    return {
        "outcome": verdict.outcome, "seconds": round(time.monotonic() - began, 2),
        "stages": {s.name: s.status for s in verdict.stages},
        "failure": f"{verdict.failure.stage}/{verdict.failure.class_}: {verdict.failure.message[:400]}" if verdict.failure else None,
        "warnings": list(verdict.warnings[:3]),
        "sanitizer": next((f"{s.status}: {s.detail}"[:300] for s in verdict.stages if s.name == "sanitizer"), ""),
    }  # fmt: skip


def outputs(bundle: Bundle, suite: Suite, case: Case, executor: Executor, arch: str) -> dict[str, Any] | str:
    """Return the arrays one case leaves on an executor, or why there are none."""
    kernel = bundle.kernel
    assert kernel is not None
    program = expand(
        bundle.ir, kernel.plan, dims=case.dims, scalars=case.scalars, tunables=None, kernels=inspect(kernel.source).kernels,
        device=executor.device(),
    )  # fmt: skip
    if isinstance(program, PlanFault):
        return program.message
    options = kernel.plan.compile
    done = executor.run(
        Job(
            kernel.source,
            program,
            (suite.inputs(case),),
            fast_math=options.fast_math,
            max_registers=options.max_registers,
            arch=arch,
            poison=11,
        )
    )
    return dict(done.calls[0].arrays) if isinstance(done, JobOk) else done.message


def differences(bundle: Bundle, suite: Suite, gpu: CudaExecutor, cpu: CpuExecutor, arch: str) -> dict[str, Any]:  # fmt: skip
    """Return per output the largest absolute and relative difference over a few cases, and how many bits agree."""
    kernel = bundle.kernel
    assert kernel is not None
    tunables = critical_sizes(kernel.plan)
    shapes = suite.cases("shapes", tunables=tunables)
    cases = [*shapes[:: max(1, len(shapes) // 6)], *suite.cases("values", tunables=tunables)[:6]]
    found: dict[str, Any] = {}
    for case in cases:
        a, b = (outputs(bundle, suite, case, e, arch) for e in (gpu, cpu))
        if isinstance(a, str) or isinstance(b, str):
            found.setdefault("not_run", []).append(f"{case.dims}: {a if isinstance(a, str) else b}"[:200])
            continue
        for name, left in a.items():
            row = found.setdefault(name, {"elements": 0, "equal": 0, "max_abs": 0.0, "max_rel": 0.0, "dtype": str(left.dtype)})  # fmt: skip
            update(row, left, b[name])
    return found


def update(row: dict[str, Any], left: Any, right: Any) -> None:
    """Add one pair of arrays to a row; two NaNs are equal, infinities of one sign too."""
    row["elements"] += int(left.size)
    raw = left.view(np.uint8).reshape(left.size, -1) == right.view(np.uint8).reshape(left.size, -1) if left.size else np.zeros((0, 1), bool)  # fmt: skip
    row["equal"] += int(raw.all(axis=1).sum())
    x, y = left.astype(np.float64), right.astype(np.float64)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(all="ignore"):
        apart = np.where(same, 0.0, np.abs(x - y))
        scaled = apart / np.maximum(np.abs(y), 1e-30)
    if apart.size:
        row["max_abs"] = max(row["max_abs"], float(apart.max()))
        row["max_rel"] = max(row["max_rel"], float(scaled.max()))


def one(name: str, out: Path, *, sanitize: bool) -> None:
    gpu = CudaExecutor(0, spares=1)  # many such processes share the machine
    if not sanitize:
        without_sanitizer(gpu)
    cpu, compiler, references = CpuExecutor(), Compiler(), ReferenceRunner()
    try:
        folder, arch = LIBRARY / name, gpu.facts()["arch"]
        row: dict[str, Any] = {"bundle": name}
        for label, executor in (("cuda", gpu), ("cpu", cpu)):
            row[label] = judged(folder, executor, cpu, compiler, references, arch)
        row["gpu_seconds"] = round(gpu.gpu_seconds, 3)
        (out / "library" / f"{name}.json").write_text(json.dumps(row, indent=1))
        bundle = load_bundle(folder)
        suite = Suite(bundle.ir, bundle.reference, runner=references, seed=7, specs=bundle.specs)
        row["differences"] = differences(bundle, suite, gpu, cpu, arch)
        (out / "library" / f"{name}.json").write_text(json.dumps(row, indent=1))
    finally:
        for closing in (gpu, compiler, references):
            closing.close()


def run_one(name: str, out: Path, until: float, *, sanitize: bool) -> None:
    """Judge a bundle in a process of its own; what it does not reach before the end is left out."""
    left = until - time.monotonic()
    if left < 5:
        return
    log = out / "library" / f"{name}.log"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.gpu.library", str(out), "--one", name, *(["--sanitize"] if sanitize else [])],
            stdout=stream, stderr=stream,
            env=environment,
        )  # fmt: skip
        try:
            process.wait(min(_ONE_S, left))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            stream.write(b"\nended by the time limit\n")
    if not log.read_bytes().strip():
        log.unlink()


def side_by_side(out: Path, names: list[str]) -> str:
    rows = []
    for name in names:
        path = out / "library" / f"{name}.json"
        log = out / "library" / f"{name}.log"
        if not path.is_file():
            last = [" ".join(log.read_text(errors="replace").split()[-40:])] if log.is_file() else []
            rows.append(f"| {name} | not measured | | {(last or ['the time was over'])[0][-200:]} |")
            continue
        row = json.loads(path.read_text())
        told = [row["cuda"]["sanitizer"]] if not row["cuda"]["sanitizer"].startswith("passed") else []
        for output, d in row.get("differences", {}).items():
            if output == "not_run":
                told.append(f"not run: {d[0]}")
            else:
                told.append(f"{output} ({d['dtype']}): max abs {d['max_abs']:.3g}, max rel {d['max_rel']:.3g}, {d['equal']}/{d['elements']} bitwise equal")  # fmt: skip
        verdicts = [
            f"{row[e]['outcome']} {row[e]['seconds']} s" + (f" ({row[e]['failure'][:160]})" if row[e]["failure"] else "")
            for e in ("cuda", "cpu")
        ]  # fmt: skip
        rows.append(f"| {name} | {verdicts[0]} | {verdicts[1]} | {'; '.join(told) or '-'} |")
    done = [json.loads(p.read_text()) for p in sorted((out / "library").glob("*.json"))]
    agree = sum(r["cuda"]["outcome"] == r["cpu"]["outcome"] for r in done)
    accepted = sum(r["cuda"]["outcome"] == "accepted" for r in done)
    clean = sum(r["cuda"]["stages"].get("sanitizer") == "passed" for r in done)
    head = f"{len(done)} of {len(names)} bundles judged on both; {accepted} accepted on cuda; {agree} with the same outcome on both; the sanitizer passed {clean}.\n\n"
    return (
        head
        + "| bundle | cuda | cpu | outputs, cuda against cpu |\n|---|---|---|---|\n"
        + "\n".join(rows)
        + "\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.gpu.library")
    parser.add_argument("out", type=Path)
    parser.add_argument("seconds", type=float, nargs="?", default=300.0)
    parser.add_argument("--one", help="judge this bundle in this process")
    parser.add_argument("--sanitize", action="store_true", help="with the sanitizer stage")
    parser.add_argument("--workers", type=int, default=max(1, len(os.sched_getaffinity(0)) * 3 // 4))
    parser.add_argument("--names", default="", help="only bundles whose name matches this expression")
    given = parser.parse_args()
    out: Path = given.out
    (out / "library").mkdir(parents=True, exist_ok=True)
    if given.one:
        one(given.one, out, sanitize=given.sanitize)
        return
    wanted = re.compile(given.names)
    names = sorted(p.parent.name for p in LIBRARY.glob("*/ir.json") if wanted.search(p.parent.name))
    until = time.monotonic() + given.seconds
    with ThreadPoolExecutor(given.workers) as pool:
        list(pool.map(lambda n: run_one(n, out, until, sanitize=given.sanitize), names))
    text = side_by_side(out, names)
    (out / "side_by_side.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
