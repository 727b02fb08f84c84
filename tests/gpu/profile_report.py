"""Counters, diagnoses and PyTorch's times for part of the library: `python -m tests.gpu.profile_report OUT [SECONDS]`.

Writes OUT/profile.json and OUT/profile.md after every kernel, so that an interrupted report keeps what it has.
"""

import json
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.gpu.timing_report import LIBRARY, sized

from cuda_harness.state.results import Profile, Timing
from cuda_harness.tools.execute.cuda.executor import CudaExecutor
from cuda_harness.tools.profile.ceilings import Ceilings, ceilings
from cuda_harness.tools.profile.explain import explain
from cuda_harness.tools.profile.library import torch_times
from cuda_harness.tools.profile.timing import time_kernel
from cuda_harness.tools.profile.workload import workload
from cuda_harness.tools.synthesize.reference import ReferenceRunner
from cuda_harness.tools.synthesize.suite import Suite
from cuda_harness.tools.verify.bundle import load_bundle

KERNELS = (
    "softmax_online", "matmul_tiled", "copy", "matmul_wmma_half", "layer_norm", "row_sum", "transpose_padded", "relu_vec4",
    "prefix_sum", "axpy", "gelu_bias", "rms_norm", "histogram_u8", "nbody", "radix_sort", "causal_attention", "conv2d_direct",
    "matmul_register_blocked",
)  # fmt: skip
COMPILED = frozenset({"softmax_online", "matmul_tiled", "layer_norm"})
HEAD = [
    "| kernel | us | of the floor | rung | score | diagnosis | by CUPTI | s | PyTorch |",
    "|---|---|---|---|---|---|---|---|---|",
]


def one(
    name: str, gpu: CudaExecutor, references: ReferenceRunner, limits: Ceilings | None
) -> tuple[dict[str, Any], str]:
    bundle = load_bundle(LIBRARY / name)
    kernel = bundle.kernel
    assert kernel is not None
    ir = sized(
        bundle.ir,
        large=name in {"copy", "axpy", "relu_vec4", "row_sum", "transpose_padded", "softmax_online"},
    )
    suite = Suite(ir, bundle.reference, runner=references, seed=secrets.randbits(40), specs=bundle.specs)
    began = time.monotonic()
    work = workload(ir, suite=suite)
    drawn = time.monotonic()
    timing = time_kernel(kernel, work, gpu, limits=limits, limit_s=2.0)
    timed = time.monotonic()
    profile = explain(kernel, work, gpu, timing=timing, limits=limits, limit_s=40.0)
    explained = time.monotonic()
    other = without_ncu(gpu, lambda: explain(kernel, work, gpu, timing=timing, limits=limits, limit_s=40.0))
    counted = time.monotonic()
    libraries = torch_times(work, suite, gpu, compiled=name in COMPILED, limit_s=60.0)
    seconds = {
        "draw": drawn - began,
        "time": timed - drawn,
        "profile": explained - timed,
        "cupti": counted - explained,
        "torch": time.monotonic() - counted,
    }
    told = "; ".join(f"{x.name} {x.median_us:.1f} us{' (' + x.notes[0][:60] + ')' if x.notes else ''}" if x.median_us else f"{x.name}: {x.reason[:120]}" for x in libraries)  # fmt: skip
    us, share = (f"{timing.median_us:.2f}", f"{timing.sol_fraction or 0:.3f}") if isinstance(timing, Timing) else (timing.reason[:80], "")  # fmt: skip
    score = f"{profile.performance_score:.3f}" if profile.performance_score is not None else ""
    line = f"| {name} | {us} | {share} | {profile.rung}{' (' + profile.reason[:80] + ')' if profile.reason else ''} | {score} | {profile.sentence} | {other.bound} ({other.rung}{'' if other.rung == 'cupti' else ': ' + other.reason[:80]}){differences(profile.metrics, other.metrics)} | {explained - timed:.1f} and {counted - explained:.1f} | {told} |"
    found = {
        "kernel": name, "timing": timing.model_dump(), "profile": profile.model_dump(), "cupti": other.model_dump(), "seconds": seconds,
        "libraries": [x.model_dump() for x in libraries],
    }  # fmt: skip
    return found, line


def without_ncu(gpu: CudaExecutor, work: Callable[[], Profile]) -> Profile:
    """Explain as where Nsight Compute is not installed."""
    found, gpu.once_environment = gpu.once_environment, lambda: {"PATH": "/nowhere"}  # type: ignore[method-assign]
    try:
        return work()
    finally:
        gpu.once_environment = found  # type: ignore[method-assign]


def differences(ncu: dict[str, float], cupti: dict[str, float]) -> str:
    """Return the counters of both that differ by more than a fifth, of those that say something."""
    told = [
        f"{name} {ncu[name]:.3g} / {cupti[name]:.3g}"
        for name in sorted(ncu.keys() & cupti.keys())
        if max(abs(ncu[name]), abs(cupti[name])) > 2.0 and abs(ncu[name] - cupti[name]) > 0.2 * max(abs(ncu[name]), abs(cupti[name]))
    ]  # fmt: skip
    return "; " + ", ".join(told) if told else ""


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + (float(sys.argv[2]) if len(sys.argv) > 2 else 115.0)
    gpu, references = CudaExecutor(0), ReferenceRunner()
    kept = ceilings(gpu)
    limits = kept if isinstance(kept, Ceilings) else None
    rows, lines = [], list(HEAD)
    for name in KERNELS:
        if time.monotonic() > until - 15:
            lines.append(f"| {name} | not reached | | | | | | | |")
            continue
        try:
            found, line = one(name, gpu, references, limits)
        except Exception as exc:  # noqa: BLE001 - the next kernel is still worth its figures
            found, line = (
                {"kernel": name, "error": f"{type(exc).__name__}: {exc}"},
                f"| {name} | {type(exc).__name__}: {exc} | | | | | | | |",
            )
        rows.append(found)
        lines.append(line)
        print(line, flush=True)
        (out / "profile.json").write_text(json.dumps(rows, indent=1, default=str))
        (out / "profile.md").write_text("\n".join(lines) + "\n")
    gpu.close()
    references.close()


if __name__ == "__main__":
    main()
