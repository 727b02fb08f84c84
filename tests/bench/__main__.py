"""`make bench`: writes build/bench.json, a list of measures by name; what cannot be measured is null with a note."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.adversarial.corpus import case, honest, library, wrong
from tests.bench import estimates, gpu

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "bench.json"
Measured = tuple[float | None, str]
"""A value, or `None`, and a note."""


def start_ms(*words: str) -> Measured:
    """Return the least of five whole-process times in milliseconds."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - began)
    return min(times) * 1000, "least of five processes"


def ladder_s(bundle: str, dims: dict[str, int]) -> Measured:
    """Return wall seconds of a warm ladder for a library kernel at the given target sizes."""
    import tempfile

    from cuda_harness.state.ir import KernelIR
    from cuda_harness.tools.execute.cpu.executor import CpuExecutor
    from cuda_harness.tools.toolchain.nvrtc import Compiler
    from cuda_harness.tools.verify.ladder import verify_bundle

    source = ROOT / "examples" / "kernels" / bundle
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / bundle
        copy.mkdir()
        for path in source.iterdir():
            (copy / path.name).write_bytes(path.read_bytes())
        ir = KernelIR.read(source / "ir.json")
        sized = [d.model_copy(update={"value": dims.get(d.name, d.value)}) for d in ir.dims]
        (copy / "ir.json").write_text(ir.model_copy(update={"dims": tuple(sized)}).to_json())
        compiler, executor = Compiler(), CpuExecutor()
        for _ in range(2):
            began = time.perf_counter()
            verdict = verify_bundle(
                copy, executor=executor, compiler=compiler, target="sm_90a", seed=1, max_seconds=300
            )
            seconds = time.perf_counter() - began
        compiler.close()
    target = verdict.stage("target")
    scaled = f", target reduced to {target.scaled}" if target is not None and target.scaled else ""
    return (
        (seconds, f"{verdict.outcome}, second run{scaled}")
        if verdict.accepted
        else (None, str(verdict.failure))
    )


def corpora(every: int) -> dict[str, Measured]:
    """Return cases judged and how many of them wrongly, over every n-th bundle of the corpora."""
    from cuda_harness.tools.execute.cpu.executor import CpuExecutor
    from cuda_harness.tools.synthesize.reference import ReferenceRunner
    from cuda_harness.tools.toolchain.nvrtc import Compiler
    from cuda_harness.tools.verify.ladder import verify_bundle

    compiler, executor, references = Compiler(), CpuExecutor(), ReferenceRunner()
    bad = [f for f in wrong() if not case(f)["gpu_only"]][::every]
    good = [*library(), *honest()][::every]
    outcomes: dict[str, list[str]] = {"bad": [], "good": []}
    for kind, folders in (("bad", bad), ("good", good)):
        for folder in folders:
            verdict = verify_bundle(
                folder, executor=executor, compiler=compiler, target="sm_90a", seed=40_507, max_seconds=180,
                references=references,
            )  # fmt: skip
            if verdict.accepted == (kind == "bad"):
                outcomes[kind].append(folder.name)
    compiler.close()
    references.close()
    total = len(bad) + len(good)
    note = f"every {every}th bundle: {len(bad)} wrong and {len(good)} honest"
    return {
        "verifier.adversarial_cases": (total, note),
        "verifier.false_accepts": (len(outcomes["bad"]), ", ".join(outcomes["bad"]) or note),
        "verifier.false_rejects": (len(outcomes["good"]), ", ".join(outcomes["good"]) or note),
    }


def mutation_score(every: int) -> dict[str, Measured]:
    """Return killed / not equivalent over mutants of every n-th bundle of the library."""
    from tests.adversarial.mutants import run, score

    found = score(run(library()[::every], each=10, seed=1))
    note = (
        f"{found['mutants']} mutants of every {every}th bundle, raw kill rate {found['raw_kill_rate']:.3f}, "
        f"{found.get('survived', 0)} survived"
    )
    return {"verifier.mutation_score": (found["score"], note)}


def evolution() -> dict[str, Measured]:
    """Return the worst landscape's evaluations against random search, and how often noise wins a contest."""
    from tests.bench.landscapes import evaluations, noise_accept_rate

    found = {name: ours / theirs for name, (ours, theirs) in evaluations().items()}
    worst = max(found, key=lambda name: found[name])
    rest = ", ".join(f"{name}: {ratio:.2f}" for name, ratio in found.items() if name != worst)
    return {
        "evolver.evaluations_vs_random": (
            found[worst],
            f"worst of {len(found)} synthetic landscapes, 20 seeds ({worst}); {rest}",
        ),
        "evolver.noise_accept_rate": (noise_accept_rate(), "400 contests of equal kernels, synthetic noise"),
    }


def offline_requests() -> dict[str, Measured]:
    """Return how many of the integration tests' requests the built-in templates plan."""
    import re

    from cuda_harness.agents.llm.offline.author import answer

    listed = ROOT / "tests" / "integration" / "offline" / "requests.txt"
    requests = [r for r in listed.read_text().splitlines() if r and not r.startswith("#")]
    planned = 0
    for request in requests:
        human = f"## Request\n````text\n{request}\n````\n"
        planned += not re.search(r'"refused"', answer("<!-- role: planner; version: 1 -->\n", human))
    return {
        "offline.requests_verified": (
            None,
            f"{planned} of {len(requests)} are planned; the tests verify them",
        ),
        "offline.requests_total": (len(requests), "tests/integration/offline/requests.txt"),
    }


HIGHER = (
    "cpu.plain_mthreads_per_s",
    "cpu.estimates_within_2x_fraction",
    "verifier.adversarial_cases",
    "verifier.mutation_score",
    "offline.",
    "gpu.stream",
)


def guarded(measure: Callable[[], Any]) -> Any:
    """Return a measure's value; one that breaks is null with its reason, and never ends the list."""
    try:
        return measure()
    except Exception as exc:  # noqa: BLE001 - a broken measure is a finding
        return exc


def main() -> None:
    """Measure everything and write the file."""
    from cuda_harness.tools.execute.cpu import bench

    found: dict[str, Measured] = {
        "start.import_ms": start_ms("-c", "import cuda_harness"),
        "start.help_ms": start_ms("-m", "cuda_harness", "--help"),
    }
    cpu = guarded(bench.measure)
    if isinstance(cpu, dict):
        found |= {name: (value, f"{os.cpu_count()} cores") for name, value in cpu.items()}
    for name, bundle, dims in (
        ("verifier.elementwise_1m_s", "axpy", {"n": 1_000_000}),
        ("verifier.matmul_1024_s", "matmul_tiled", {"m": 1024, "n": 1024, "k": 1024}),
    ):
        value = guarded(lambda b=bundle, d=dims: ladder_s(b, d))
        found[name] = value if isinstance(value, tuple) else (None, str(value)[:300])
    value = guarded(lambda: estimates.figure(library()))
    found["cpu.estimates_within_2x_fraction"] = (
        value if isinstance(value, tuple) else (None, str(value)[:300])
    )
    every = int(os.environ.get("BENCH_EVERY", "12"))
    for part in (lambda: corpora(every), lambda: mutation_score(every), evolution, offline_requests):
        value = guarded(part)
        if isinstance(value, dict):
            found |= value
    found |= gpu.figures(ROOT)
    rows = []
    for name, (value, note) in found.items():
        unit = (
            "ms" if name.endswith("_ms") else "s" if name.endswith("_s") and "_per_" not in name else "count"
        )
        if "over" in name or "rate" in name or "fraction" in name or "score" in name or "_vs_" in name:
            unit = "ratio"
        if name.endswith("mthreads_per_s"):
            unit = "million threads/s"
        better = "higher" if name.startswith(HIGHER) else "lower"
        rows.append(
            {"name": name, "value": value, "unit": unit, "better": better, "against": None, "note": note}
        )
        shown = "not measured" if value is None else f"{value:.3f}"
        print(f"{name:<32} {shown:>14} {unit:<18} {note[:90]}")
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
