"""Seconds from source to verdict and time, by stage: cold, warm, and under the sanitizer.

`python -m tests.gpu.overhead OUT [--no-sanitizer]` writes OUT/overhead.json and OUT/overhead.md.
"""

import json
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.adversarial.corpus import without_sanitizer

from cuda_harness.state.ir import KernelIR
from cuda_harness.state.kernel import Kernel
from cuda_harness.state.results import Verdict
from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.execute.cuda.executor import CudaExecutor
from cuda_harness.tools.ir.program import PlanFault, expand
from cuda_harness.tools.profile.timing import Contender, Session, measure
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.toolchain.nvrtc import Compiler
from cuda_harness.tools.toolchain.source import inspect
from cuda_harness.tools.verify.bundle import Bundle, load_bundle
from cuda_harness.tools.verify.ladder import judge

PRECISION = 0.01
"""Wanted half width of the median's interval, as when configurations are compared."""
LIBRARY = Path(__file__).resolve().parents[2] / "examples" / "kernels"
MILLION: dict[str, dict[str, int]] = {
    "axpy": {"n": 1 << 20},
    "softmax_online": {"rows": 1024, "cols": 1024},
    "row_sum": {"rows": 1024, "cols": 1024},
    "transpose_padded": {"rows": 1024, "cols": 1024},
}
"""Bundle -> dims that give about a million elements; names that a bundle lacks are passed over."""


def resized(ir: KernelIR, sizes: dict[str, int]) -> KernelIR:
    """Return the IR with other target sizes; any dim that is not named gets 1024."""
    free = [d for d in ir.dims if not d.fixed]
    chosen = {
        d.name: sizes.get(d.name, 1024 if len(free) > 1 else 1 << 20) if d in free else d.value
        for d in ir.dims
    }
    return ir.model_copy(
        update={"dims": tuple(d.model_copy(update={"value": chosen[d.name]}) for d in ir.dims)}
    )


class Bench:
    """One bundle on one set of tools."""

    def __init__(self, name: str, cache: Path, cpu: CpuExecutor, references: ReferenceRunner) -> None:
        self.bundle: Bundle = load_bundle(LIBRARY / name)
        self.ir = resized(self.bundle.ir, MILLION[name])
        self.cpu, self.references = cpu, references
        self.cache = cache
        self.seed = secrets.randbits(40)
        self.suite = Suite(
            self.ir, self.bundle.reference, runner=references, seed=self.seed, specs=self.bundle.specs
        )

    def candidate(self, number: int) -> Kernel:
        """Return the bundle's kernel with a constant that no compiler has seen: a comment changes no build."""
        kernel = self.bundle.kernel
        assert kernel is not None
        constant = f"constexpr int candidate_{number}_{self.seed} = {number};"
        return Kernel(source=f"{kernel.source}\n{constant}\n", plan=kernel.plan)

    def round(self, gpu: CudaExecutor, compiler: Compiler, number: int) -> dict[str, Any]:
        """Judge and time one candidate that nobody has seen before."""
        kernel = self.candidate(number)
        began = time.monotonic()
        verdict: Verdict = judge(
            kernel, self.ir, self.suite, executor=gpu, compiler=compiler, target=gpu.facts()["arch"], seed=self.seed,
            max_seconds=120, checker=self.cpu,
        )  # fmt: skip
        sanitized = sum(s.seconds for s in verdict.stages if s.name == "sanitizer")
        judged = time.monotonic() - began - sanitized
        timed = self.time(gpu, kernel)
        return {
            "outcome": verdict.outcome, "verdict_s": round(judged, 3), "timing_s": timed and timed[0], "interval": timed and timed[1],
            "total_s": round(time.monotonic() - began - sanitized, 3), "sanitizer_s": round(sanitized, 3),
            "sanitizer": next((f"{s.status}: {s.detail}"[:200] for s in verdict.stages if s.name == "sanitizer"), ""),
            "stages_s": {s.name: round(s.seconds, 3) for s in verdict.stages if s.status != "not_measured"},
            "failure": verdict.failure.message[:300] if verdict.failure else None,
        }  # fmt: skip

    def time(self, gpu: CudaExecutor, kernel: Kernel) -> tuple[float, float] | None:
        """Return wall seconds of a short timing session and half the width of its interval relative to the median, `None` when it did not work."""
        cases = self.suite.cases("target")[:1]
        program = expand(
            self.ir, kernel.plan, dims=self.ir.target_dims, scalars=cases[0].scalars, tunables=None,
            kernels=inspect(kernel.source).kernels, device=gpu.device(),
        )  # fmt: skip
        if isinstance(program, PlanFault):
            return None
        began = time.monotonic()
        contents = [self.suite.inputs(c) for c in cases]
        done = measure(
            gpu, [Contender("k", kernel.source, program)], contents, arch=gpu.facts()["arch"], seed=1, precision=PRECISION,
            limit_s=1.0,
        )  # fmt: skip
        if not isinstance(done, Session):
            return None
        return round(time.monotonic() - began, 3), round(done.timed[0].median.relative_half_width, 4)


def measure_bundle(name: str, *, sanitize: bool = True) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        cpu, references = CpuExecutor(), ReferenceRunner()
        bench = Bench(name, cache, cpu, references)
        began = time.monotonic()
        gpu, compiler = CudaExecutor(0, cache=cache), Compiler(cache=cache)
        if not sanitize:
            without_sanitizer(gpu)
        try:
            cold = bench.round(gpu, compiler, 0)
            cold["total_s"] = round(time.monotonic() - began - cold["sanitizer_s"], 3)
            gpu_before = gpu.gpu_seconds
            warm = [bench.round(gpu, compiler, n) for n in (1, 2, 3)]
            held = (gpu.gpu_seconds - gpu_before) / 3
        finally:
            gpu.close()
            compiler.close()
            references.close()
    best = min(warm, key=lambda r: r["total_s"])
    return {"bundle": name, "cold": cold, "warm": warm, "warm_best_s": best["total_s"], "gpu_seconds_per_candidate": round(held, 3)}  # fmt: skip


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| bundle | round | verdict s | timing s (interval) | total s | sanitizer s | outcome | where it goes |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "error" in row:
            lines.append(f"| {row['bundle']} | - | - | - | - | - | {row['error']} | - |")
            continue
        for label, r in (("cold", row["cold"]), *((f"warm {i}", w) for i, w in enumerate(row["warm"], 1))):
            where = ", ".join(f"{n} {s:.2f}" for n, s in r["stages_s"].items() if s >= 0.01)
            lines.append(
                f"| {row['bundle']} | {label} | {r['verdict_s']:.2f} | {r['timing_s']} ({r['interval']}) | {r['total_s']:.2f} | {r['sanitizer_s']:.1f} | {r['outcome']} | {where} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    for name in (n for n in MILLION if (LIBRARY / n).is_dir()):
        try:
            rows.append(measure_bundle(name, sanitize="--no-sanitizer" not in sys.argv[2:]))
        except Exception as exc:  # noqa: BLE001 - the other bundles are still worth their numbers
            rows.append({"bundle": name, "error": f"{type(exc).__name__}: {exc}"[:300]})
        (out / "overhead.json").write_text(json.dumps({"g++": shutil.which("g++"), "rows": rows}, indent=1))
        (out / "overhead.md").write_text(table(rows))
    print(table(rows))


if __name__ == "__main__":
    main()
