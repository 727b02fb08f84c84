"""How well the target stage's estimate foretells a run of the target in full, over the library's kernels."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cuda_harness.tools.execute.cpu.executor import CpuExecutor
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.toolchain.nvrtc import Compiler
from cuda_harness.tools.verify.bundle import load_bundle
from cuda_harness.tools.verify.climb import Climb
from cuda_harness.tools.verify.stages import parse_stage
from cuda_harness.tools.verify.target import estimated_cpu_s, measure, tiny_runs

LEAST_S = 0.02
"""Processor seconds of a full run below which nobody asks for an estimate."""


@dataclass(frozen=True)
class Foretold:
    """Processor seconds of one call at the target's sizes."""

    name: str
    estimated_s: float
    measured_s: float

    @property
    def ratio(self) -> float:
        """Estimated over measured."""
        return self.estimated_s / self.measured_s


def foretell(folder: Path) -> Foretold | None:
    """Return the estimate for a bundle beside the measured run; `None` where the run is short or the plan cannot be cut.

    Processor seconds: other work on the machine stretches the wall's.
    """
    bundle = load_bundle(folder)
    if bundle.kernel is None:
        return None
    runner, compiler = ReferenceRunner(), Compiler()
    try:
        suite = Suite(bundle.ir, bundle.reference, runner=runner, seed=1, specs=bundle.specs)
        climb = Climb(
            bundle.kernel,
            bundle.ir,
            suite,
            CpuExecutor(),
            None,
            compiler,
            "sm_90a",
            1,
            time.monotonic() + 600,
        )
        parse_stage(climb)
        full = measure(climb, bundle.ir.target_dims, calls=1, deadline_s=60)
        if full is None or full.cpu_s < LEAST_S:
            return None
        runs = tiny_runs(climb, 60)
        if not isinstance(runs, list) or max(r.work for r in runs) >= full.work:
            return None
        return Foretold(folder.name, estimated_cpu_s(runs, full.work, full.threads), full.cpu_s)
    finally:
        runner.close()
        compiler.close()


def figure(folders: Sequence[Path]) -> tuple[float | None, str]:
    """Return the share of estimates within a factor of two, and the worst of them."""
    found = [f for f in map(foretell, folders) if f is not None]
    if not found:
        return None, "no kernel of the library runs long enough"
    right = sum(0.5 <= f.ratio <= 2 for f in found)
    worst = max(found, key=lambda f: max(f.ratio, 1 / f.ratio))
    return right / len(found), f"{right} of {len(found)} kernels that run {LEAST_S * 1e3:.0f} ms or more; worst: {worst.name} {worst.ratio:.2f}"  # fmt: skip
